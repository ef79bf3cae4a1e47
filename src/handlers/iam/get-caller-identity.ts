/** GetCallerIdentity: whoever signs may know who they are. */
import { callerOf } from '../../auth/principal.ts';
import { element, token } from '../../protocol/codec.ts';
import { action } from './action.ts';

export const GetCallerIdentity = action(
  'GetCallerIdentity',
  {},
  {
    resource: 'anybody',
    result: element({ Arn: token, UserId: token, Account: token }),
    run: (_ctx, { identity }) => {
      const { account, arn, sessionArn, userid } = callerOf(identity);
      return { Arn: sessionArn ?? arn, UserId: userid, Account: account };
    },
  },
);

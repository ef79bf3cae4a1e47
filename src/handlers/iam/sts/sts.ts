/** The actions of STS about the caller itself, and about keys. */
import { callerOf } from '../../../auth/session/principal.ts';
import type { Context } from '../../../context.ts';
import { findKey } from '../../../domain/iam/access-keys.ts';
import { fail } from '../../../errors/refusal.ts';
import { element, token } from '../../../protocol/formats/codec.ts';
import { integer, optional } from '../../../protocol/operations/parameters.ts';
import { credentials } from '../../../protocol/schemas/account/sts.ts';
import { action } from '../action.ts';
import type { ActionRequest } from '../action-request.ts';
import { accessKeyId } from '../fields.ts';
import { issue } from './session-credentials.ts';
import { codeParameters, shownAt } from './shown-code.ts';

/** Every caller with a valid signature may read its own identity. */
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

const sessionSeconds = integer({ min: 900, max: 129_600 });
const userSecondsDefault = 43_200;
const rootSecondsMax = 3_600;

/** A user needs no permission for its own session, which may do what the user may. */
export const GetSessionToken = action(
  'GetSessionToken',
  { DurationSeconds: optional(sessionSeconds), ...codeParameters },
  {
    resource: 'anybody',
    result: element({ Credentials: credentials }),
    async run(ctx, request, { DurationSeconds, ...code }) {
      const { accessKey, iam, owner, root, session } = request.identity;
      if (session !== undefined)
        throw fail('AccessDenied', 'Cannot request GetSessionToken with session credentials');
      const seconds = root
        ? Math.min(DurationSeconds ?? rootSecondsMax, rootSecondsMax)
        : (DurationSeconds ?? userSecondsDefault);
      const of = iam === undefined ? { configured: accessKey } : { user: iam.id };
      const mfaAt = await shownAt(ctx, request, code);
      const asked = { account: owner, of, seconds, ...(mfaAt === undefined ? {} : { mfaAt }) };
      const { shown } = await issue(ctx, asked);
      return { Credentials: shown };
    },
  },
);

/** The account of a key: to itself, and to operators. */
export const GetAccessKeyInfo = action(
  'GetAccessKeyInfo',
  { AccessKeyId: accessKeyId },
  {
    resource: () => '*',
    result: element({ Account: token }),
    async run(ctx, request, { AccessKeyId }) {
      const owner = await findOwner(ctx, request, AccessKeyId);
      if (owner === undefined || (owner !== request.identity.owner && !request.identity.operator))
        throw fail('ValidationError', `The access key ${AccessKeyId} is not known to your account.`);
      return { Account: owner };
    },
  },
);

/** The owner, also for an inactive key. */
async function findOwner(
  ctx: Context,
  { identity }: ActionRequest,
  accessKey: string,
): Promise<string | undefined> {
  const found = await ctx.credentials.find(accessKey);
  if (found !== undefined) return found.owner;
  const inactive = await findKey(ctx, identity.owner, accessKey);
  return inactive === undefined ? undefined : identity.owner;
}

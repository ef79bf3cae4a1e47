/** ImportAccessKey: a user gets a key pair that exists already, for clients that move here. */
import { importAccessKey } from '../../../domain/iam/access-keys.ts';
import { fail } from '../../../errors/refusal.ts';
import { userArn } from '../../../protocol/request/arns.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { assertExactNames } from './iam/entities.ts';

export const ImportAccessKey: AdminHandler<'ImportAccessKey'> = async (
  ctx,
  { body, identity, params, record },
) => {
  const { account = identity?.owner ?? '', ...given } = body;
  const user = params.get('user') ?? '';
  if (!/^[\w+=,.@-]{1,64}$/.test(user)) throw fail('NoSuchEntity', 'There is no such user.');
  record?.about(userArn(account, { name: user }));
  await assertExactNames(ctx, account, params);
  const imported = await importAccessKey({ ...ctx, record }, account, { user, pair: given });
  const { accessKey, status, created } = imported;
  return jsonReply({ account, user, accessKey, status, createdAt: Math.floor(created / 1000) });
};

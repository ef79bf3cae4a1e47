/** ImportAccessKey: a user gets a key pair that exists already, for clients that move here. */
import { importAccessKey } from '../../../domain/iam/access-keys.ts';
import { fail } from '../../../errors/refusal.ts';
import {
  type JsonReader,
  jsonObject,
  jsonOptional,
  jsonText,
  readJson,
} from '../../../protocol/formats/json.ts';
import { userArn } from '../../../protocol/request/arns.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

const text =
  (pattern: RegExp, must: string): JsonReader<string> =>
  (value, at) => {
    const given = jsonText()(value, at);
    if (!pattern.test(given)) throw fail('MalformedJSON', `${at} must be ${must}.`);
    return given;
  };

/** The fields of configured credentials; the account is the operator's own unless named. */
const pair = jsonObject({
  accessKey: text(/^[A-Za-z0-9._=+@-]{3,128}$/, '3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-'),
  secretKey: text(/^[\x21-\x7e]{8,256}$/, '8 to 256 printable ASCII characters without spaces'),
  account: jsonOptional(text(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/, 'the id of an account')),
});

export const ImportAccessKey: AdminHandler = async (ctx, { body, identity, params, record }) => {
  const { account = identity?.owner ?? '', ...given } = readJson(pair, body);
  const user = params.get('user') ?? '';
  if (!/^[\w+=,.@-]{1,64}$/.test(user)) throw fail('NoSuchEntity', 'There is no such user.');
  record?.about(userArn(account, { name: user }));
  const imported = await importAccessKey({ ...ctx, record }, account, { user, pair: given });
  const { accessKey, status, created } = imported;
  return jsonReply({ account, user, accessKey, status, createdAt: Math.floor(created / 1000) });
};

/** Rows about the log-ins of operators. */
import { jsonCount, jsonObject, jsonOptional, jsonRows, jsonText } from '../../formats/json.ts';
import { mention, noResource } from './resources.ts';
import { type AdminRows, count, isoTime } from './row.ts';

const caller = { accessKey: jsonText(), account: jsonText(), principal: jsonText() };
const login = jsonObject({
  id: jsonText(),
  ...caller,
  createdAt: isoTime,
  seenAt: isoTime,
  expiresAt: isoTime,
  source: jsonText(),
  agent: jsonText(),
});
const byKey = { accessKey: jsonOptional(jsonText({ max: 128 })) };

export const sessionRows = {
  LogIn: {
    on: 'POST /session',
    names: {
      accessKey: noResource('The caller itself.'),
      secretKey: noResource('A secret.'),
    },
    doc: 'Exchanges an access key and its secret for a cookie.',
    callers: 'anyone',
    secret: true,
    body: jsonObject({ accessKey: jsonText({ max: 128 }), secretKey: jsonText({ max: 128 }) }),
    reply: jsonObject({ ...caller, csrfToken: jsonText(), expiresAt: isoTime, idleSeconds: jsonCount }),
  },
  GetSession: {
    on: 'GET /session',
    doc: 'Shows who the caller is, and the log-in of its cookie.',
    callers: 'known',
    reply: jsonObject({
      ...caller,
      csrfToken: jsonOptional(jsonText()),
      expiresAt: jsonOptional(isoTime),
      idleSeconds: jsonOptional(jsonCount),
    }),
  },
  LogOut: { on: 'DELETE /session', doc: 'Ends the log-in of the cookie.', callers: 'known' },
  ListLogins: {
    on: 'GET /logins',
    names: { accessKey: mention('accounts/{accessKey.account}/logins') },
    lists: { logins: ['accounts/{account}'] },
    doc: 'Lists the log-ins of operators.',
    query: byKey,
    reply: jsonObject({ logins: jsonRows(login) }),
  },
  RevokeLogin: { on: 'DELETE /logins/:id', lists: { logins: ['accounts/{account}'] }, doc: 'Ends a log-in.' },
  RevokeLogins: {
    on: 'DELETE /logins',
    names: { accessKey: mention('accounts/{accessKey.account}/logins') },
    lists: { logins: ['accounts/{account}'] },
    doc: 'Ends all log-ins, or those of one access key.',
    query: byKey,
    reply: jsonObject({ revoked: count }),
  },
} as const satisfies AdminRows;

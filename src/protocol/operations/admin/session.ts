/** Rows about log-ins, and about what the caller may do. */
import {
  jsonBoolean,
  jsonChoice,
  jsonCount,
  jsonList,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../formats/json.ts';
import { mention, noResource } from './resources.ts';
import { type AdminRows, bucketName, count, isoTime, longText } from './row.ts';

const caller = { accessKey: jsonText(), account: jsonText(), principal: jsonText() };
/** The caller may have permissions for the whole installation; otherwise only its own rows are open to it. */
const role = { isOperator: jsonBoolean };
const login = {
  id: jsonText(),
  ...caller,
  createdAt: isoTime,
  seenAt: isoTime,
  expiresAt: isoTime,
  source: jsonText(),
  agent: jsonText(),
};
const ownKey = {
  accessKey: jsonText(),
  status: jsonText(),
  created: isoTime,
  lastUsed: jsonOptional(isoTime),
};
const byKey = { accessKey: jsonOptional(jsonText({ max: 128 })) };

export const sessionRows = {
  LogIn: {
    on: 'POST /session',
    cookie: true,
    names: {
      accessKey: noResource('The caller itself.'),
      secretKey: noResource('A secret.'),
    },
    doc: 'Exchanges an access key and its secret for a cookie.',
    callers: 'anyone',
    secret: true,
    body: jsonObject({ accessKey: jsonText({ max: 128 }), secretKey: jsonText({ max: 256 }) }),
    reply: jsonObject({
      ...caller,
      ...role,
      csrfToken: jsonText(),
      expiresAt: isoTime,
      idleSeconds: jsonCount,
    }),
  },
  GetSession: {
    on: 'GET /session',
    doc: 'Shows who the caller is, and the log-in of its cookie.',
    callers: 'known',
    reply: jsonObject({
      ...caller,
      ...role,
      csrfToken: jsonOptional(jsonText()),
      expiresAt: jsonOptional(isoTime),
      idleSeconds: jsonOptional(jsonCount),
    }),
  },
  LogOut: { on: 'DELETE /session', cookie: true, doc: 'Ends the log-in of the cookie.', callers: 'known' },
  CreateSessionCredentials: {
    on: 'POST /session/credentials',
    cookie: true,
    doc: 'Issues temporary credentials of the caller for the storage protocol, which end with the log-in of the cookie.',
    callers: 'known',
    secret: true,
    reply: jsonObject({
      accessKey: jsonText(),
      secretKey: jsonText(),
      sessionToken: longText,
      expiresAt: isoTime,
      region: jsonText(),
    }),
  },
  CheckPermissions: {
    on: 'POST /session/permissions',
    names: {
      bucket: noResource('A part of a question: the answer says what policies allow.'),
      key: noResource('A part of a question.'),
    },
    doc: 'Says of several actions whether policies allow them to the caller; nothing is executed.',
    callers: 'known',
    reads: true,
    /** An action of the operator API (`admin:DrainCluster`), of S3 or of IAM. `path` is below `/admin/v1`; absent: anything. */
    body: jsonObject({
      questions: jsonList(
        jsonObject({
          action: jsonText({ max: 128 }),
          bucket: jsonOptional(bucketName),
          key: jsonOptional(jsonText({ max: 1024 })),
          path: jsonOptional(jsonText({ max: 2048 })),
          resource: jsonOptional(jsonText({ max: 2048 })),
        }),
        { min: 1, max: 200 },
      ),
    }),
    reply: jsonObject({
      answers: jsonRows(jsonObject({ allowed: jsonBoolean, reason: jsonOptional(longText) })),
    }),
  },
  ListOwnAccessKeys: {
    on: 'GET /session/access-keys',
    doc: 'Lists the access keys of the caller itself, where IAM allows iam:ListAccessKeys.',
    callers: 'known',
    reply: jsonObject({ accessKeys: jsonRows(jsonObject(ownKey)) }),
  },
  CreateOwnAccessKey: {
    on: 'POST /session/access-keys',
    records: ['accessKeys'],
    doc: 'Creates an access key of the caller itself, where IAM allows iam:CreateAccessKey; its secret is shown in this reply only.',
    callers: 'known',
    secret: true,
    reply: jsonObject({ ...ownKey, secretKey: jsonText() }),
  },
  PutOwnAccessKey: {
    on: 'PUT /session/access-keys/:key',
    records: ['accessKeys'],
    doc: 'Makes an access key of the caller itself active or inactive, where IAM allows iam:UpdateAccessKey.',
    callers: 'known',
    body: jsonObject({ status: jsonChoice(['Active', 'Inactive']) }),
  },
  DeleteOwnAccessKey: {
    on: 'DELETE /session/access-keys/:key',
    records: ['accessKeys'],
    doc: 'Deletes an access key of the caller itself, where IAM allows iam:DeleteAccessKey.',
    callers: 'known',
  },
  ListOwnLogins: {
    on: 'GET /session/logins',
    lists: { logins: ['accounts/{account}'] },
    doc: 'Lists the log-ins of the caller itself, with each of its access keys.',
    callers: 'known',
    /** `isCurrent`: the log-in of the cookie of this request. */
    reply: jsonObject({ logins: jsonRows(jsonObject({ ...login, isCurrent: jsonBoolean })) }),
  },
  RevokeOwnLogin: {
    on: 'DELETE /session/logins/:id',
    doc: 'Ends a log-in of the caller itself.',
    callers: 'known',
  },
  ListLogins: {
    on: 'GET /logins',
    names: { accessKey: mention('accounts/{accessKey.account}/logins') },
    lists: { logins: ['accounts/{account}'] },
    doc: 'Lists the log-ins of operators.',
    query: byKey,
    reply: jsonObject({ logins: jsonRows(jsonObject(login)) }),
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

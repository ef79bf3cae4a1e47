/** Rows about decisions, access keys and log-ins. */
import {
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonCount,
  jsonList,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
  jsonTexts,
} from '../formats/json.ts';
import { auditedSession } from './audit.ts';
import { policyTextMax } from './iam.ts';
import {
  type AdminRows,
  bucketName,
  count,
  isoTime,
  longText,
  mention,
  noResource,
  part,
  scope,
  seconds,
} from './row.ts';

// Rows about decisions and access keys.

const text = (pattern: RegExp, must: string) => jsonText({ pattern, must });
/** `policy` is its name: `bucket policy`, `policy/{name}` (managed), or `user/{name}/{policy}` (inline; also of groups and roles). */
const statement = {
  policy: longText,
  statement: jsonCount,
  sid: jsonOptional(jsonText()),
};
const decision = {
  allowed: jsonBoolean,
  reason: jsonText(),
  by: jsonOptional(jsonObject(statement)),
  statements: jsonRows(
    jsonObject({
      ...statement,
      effect: jsonChoice(['Allow', 'Deny']),
      outcome: jsonText(),
      condition: jsonOptional(longText),
    }),
  ),
};

/**
 * What the audit log does not have of a request. `session`: the row is of a version that recorded nothing about sessions of temporary
 * credentials. `further-action`: the request was refused, and its operation alone is allowed; it needed another action too, such as
 * `s3:GetObject` for a condition or `s3:BypassGovernanceRetention`, or what it was judged by has changed.
 */
const missingParts = ['session', 'session-policy', 'session-tags', 'further-action'] as const;

/** A caller, and what it asks for. */
const asked = {
  accessKey: jsonOptional(jsonText()),
  principal: jsonOptional(
    jsonText({ max: 2048, doc: 'The ARN of a root, user or role, in place of an access key.' }),
  ),
  bucket: jsonOptional(bucketName),
  key: jsonOptional(jsonText({ max: 1024 })),
  versionId: jsonOptional(jsonText()),
  context: jsonOptional(jsonTexts),
  accessPoint: jsonOptional(
    jsonText({
      max: 50,
      doc: 'The name of an access point of the bucket through which the request comes: one of the account of the bucket.',
    }),
  ),
  /** The ARN, where it is neither a bucket's nor an object's. */
  resource: jsonOptional(jsonText({ max: 2048 })),
};
/** Absent for an anonymous caller. */
const caller = jsonOptional(jsonObject({ account: jsonText(), principal: longText }));

export const accessRows = {
  GetOpenApi: {
    on: 'GET /openapi.json',
    doc: 'Shows this API as an OpenAPI 3.1 document.',
    reply: jsonAny,
  },
  ExplainDecision: {
    on: 'POST /why',
    tenants: { bucket: 'bucket', callers: ['accessKey', 'principal'] },
    names: {
      bucket: scope('buckets/{bucket}/why'),
      accessKey: mention('accounts/{accessKey.account}/why'),
      principal: mention('accounts/{principal.account}/why'),
      requestId: noResource('The handler asks for the bucket and the access key of the audited request.'),
      key: noResource('The key of an object is part of its bucket.'),
      resource: noResource('A part of the question.'),
      policy: noResource(
        'The name in the answer of a policy that the question replaces: its text is not read.',
      ),
    },
    doc: 'Says whether a caller may do something, and which statement decides it, also with a policy document that is not stored; nothing is executed.',
    reads: true,
    /** Neither `accessKey` nor `principal`: anonymous. `context`: condition keys and their values, such as `aws:SourceIp`. */
    body: jsonObject({
      ...asked,
      action: jsonOptional(jsonText()),
      /** A request of the audit log: what is not given is taken from its row. */
      requestId: jsonOptional(jsonText({ max: 128 })),
      /** A document that is not stored, in place of the policy of that name. `isNew`: the caller has it beside its other policies. */
      draft: jsonOptional(
        jsonObject({
          policy: jsonText({ max: 512 }),
          document: jsonText({ max: policyTextMax, doc: 'The text of a policy document.' }),
          isNew: jsonOptional(jsonBoolean),
        }),
      ),
    }),
    /** The answer by what is stored; `draft`: the answer with the draft. `missing`: what the answer leaves out of a past request. */
    reply: jsonObject({
      ...decision,
      caller,
      missing: jsonOptional(jsonRows(jsonChoice(missingParts))),
      draft: jsonOptional(jsonObject(decision)),
      request: jsonOptional(
        jsonObject({
          time: isoTime,
          action: jsonText(),
          status: count,
          error: jsonOptional(jsonText()),
          principal: jsonOptional(longText),
          accessKey: jsonOptional(jsonText()),
          bucket: jsonOptional(bucketName),
          key: jsonOptional(longText),
          session: jsonOptional(auditedSession),
        }),
      ),
    }),
  },
  ExplainDecisions: {
    on: 'POST /why/batch',
    callers: 'known',
    names: Object.fromEntries(
      ['bucket', 'accessKey', 'principal', 'key', 'resource'].map((field) => [
        field,
        noResource('The handler asks the policies about each question, as ExplainDecision would.'),
      ]),
    ),
    doc: 'Says of several callers, actions and resources whether policies allow them, and which statement decides. Each question needs the permission of ExplainDecision; one without it, or with an error, is answered by `refused`.',
    reads: true,
    body: jsonObject({
      questions: jsonList(jsonObject({ ...asked, action: jsonText() }), { min: 1, max: 200 }),
    }),
    /** In the order of the questions. */
    reply: jsonObject({
      answers: jsonRows(
        jsonObject({
          allowed: jsonOptional(jsonBoolean),
          reason: jsonOptional(jsonText()),
          by: decision.by,
          caller,
          refused: jsonOptional(jsonObject({ code: jsonText(), message: longText })),
        }),
      ),
    }),
  },
  ImportAccessKey: {
    on: 'POST /iam/users/:user/access-keys',
    records: ['accessKeys'],
    doc: 'Gives a user a key pair that exists already.',
    takesSecret: true,
    names: {
      user: mention('accounts/{account|own}/users/{user}/access-keys'),
      account: part('accounts/{account}/users/{user}/access-keys'),
      accessKey: noResource('The key does not exist yet.'),
      secretKey: noResource('A secret.'),
    },
    /** The fields of configured credentials; the account is the operator's own unless named. */
    body: jsonObject({
      accessKey: text(/^[A-Za-z0-9._=+@-]{3,128}$/, '3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-'),
      secretKey: text(/^[\x21-\x7e]{8,256}$/, '8 to 256 printable ASCII characters without spaces'),
      account: jsonOptional(text(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/, 'the id of an account')),
    }),
    reply: jsonObject({
      account: jsonText(),
      user: jsonText(),
      accessKey: jsonText(),
      status: jsonText(),
      createdAt: seconds,
    }),
  },
} as const satisfies AdminRows;

// Rows about log-ins, and about what the caller may do.

const loggedIn = { accessKey: jsonText(), account: jsonText(), principal: jsonText() };
/** The caller may have permissions for the whole installation; otherwise only its own rows are open to it. */
const role = { isOperator: jsonBoolean };
const login = {
  id: jsonText(),
  ...loggedIn,
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
      ...loggedIn,
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
      ...loggedIn,
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
  BatchRead: {
    on: 'POST /batch',
    names: {
      operation: noResource('Each read is authorized as the operation that it names.'),
      path: noResource('As for `operation`.'),
      query: noResource('As for `operation`.'),
    },
    doc: 'Performs several operations that change nothing, each authorized by itself, and streams a line of JSON for each as it ends.',
    callers: 'known',
    reads: true,
    /**
     * `path`, `query` and `body` as the operation takes them. `etag`: that of the last answer, which is not sent again
     * if it is the same.
     */
    body: jsonObject({
      reads: jsonList(
        jsonObject({
          operation: jsonText({ max: 64 }),
          path: jsonOptional(jsonTexts),
          query: jsonOptional(jsonTexts),
          body: jsonOptional(jsonAny),
          etag: jsonOptional(jsonText({ max: 128 })),
        }),
        { min: 1, max: 32 },
      ),
    }),
    media: ['application/x-ndjson'],
    status: 200,
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

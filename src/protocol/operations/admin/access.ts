/** Rows about decisions and access keys. */
import {
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonCount,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
  jsonTexts,
} from '../../formats/json.ts';
import { policyTextMax } from './iam.ts';
import { mention, noResource, part, scope } from './resources.ts';
import { type AdminRows, bucketName, count, isoTime, longText, seconds } from './row.ts';

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

export const accessRows = {
  GetOpenApi: {
    on: 'GET /openapi.json',
    doc: 'Shows this API as an OpenAPI 3.1 document.',
    reply: jsonAny,
  },
  ExplainDecision: {
    on: 'POST /why',
    names: {
      bucket: scope('buckets/{bucket}/why'),
      accessKey: mention('accounts/{accessKey.account}/why'),
      requestId: noResource('The handler asks for the bucket and the access key of the audited request.'),
      key: noResource('The key of an object is part of its bucket.'),
      resource: noResource('A part of the question.'),
      policy: noResource(
        'The name in the answer of a policy that the question replaces: its text is not read.',
      ),
    },
    doc: 'Says whether a caller may do something, and which statement decides it, also with a policy document that is not stored; nothing is executed.',
    reads: true,
    /** `accessKey` absent: anonymous. `context`: condition keys and their values, such as `aws:SourceIp`. */
    body: jsonObject({
      accessKey: jsonOptional(jsonText()),
      action: jsonOptional(jsonText()),
      /** A request of the audit log: what is not given is taken from its row. */
      requestId: jsonOptional(jsonText({ max: 128 })),
      bucket: jsonOptional(bucketName),
      key: jsonOptional(jsonText({ max: 1024 })),
      versionId: jsonOptional(jsonText()),
      context: jsonOptional(jsonTexts),
      /** The ARN, where it is neither a bucket's nor an object's. */
      resource: jsonOptional(jsonText({ max: 2048 })),
      /** A document that is not stored, in place of the policy of that name. `isNew`: the caller has it beside its other policies. */
      draft: jsonOptional(
        jsonObject({
          policy: jsonText({ max: 512 }),
          document: jsonText({ max: policyTextMax, doc: 'The text of a policy document.' }),
          isNew: jsonOptional(jsonBoolean),
        }),
      ),
    }),
    /** The answer by what is stored; `draft`: the answer with the draft. */
    reply: jsonObject({
      ...decision,
      /** Absent for an anonymous caller. */
      caller: jsonOptional(jsonObject({ account: jsonText(), principal: longText })),
      draft: jsonOptional(jsonObject(decision)),
      request: jsonOptional(
        jsonObject({
          time: isoTime,
          action: jsonText(),
          status: count,
          error: jsonOptional(jsonText()),
          accessKey: jsonOptional(jsonText()),
          bucket: jsonOptional(bucketName),
          key: jsonOptional(longText),
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

/** Rows about the export and import of what IAM keeps in an account. */
import {
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonList,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { policyTextMax } from './iam.ts';
import { type AdminRows, count, longText, mention, next, noResource, pagingBy } from './row.ts';

/** Records of a page, and of a request. */
export const transferredMax = 100;

const policyText = jsonText({ max: policyTextMax });
const texts = (most: number) => jsonOptional(jsonList(jsonText({ max: 2_048 }), { max: most }));
const quota = jsonOptional(jsonObject({ maxBuckets: count, totalMaxBytes: count }));

/**
 * One account, policy, group, role or user. A field that its kind does not have is refused; one that is absent in an import stays as it
 * is. A policy has the document of its default version.
 */
const recordFields = {
  kind: jsonChoice(['account', 'policies', 'groups', 'roles', 'users']),
  name: jsonText({ max: 128 }),
  path: jsonOptional(jsonText({ max: 512 })),
  displayName: jsonOptional(jsonText({ max: 256 })),
  email: jsonOptional(jsonText({ max: 320 })),
  status: jsonOptional(jsonChoice(['Active', 'Suspended', 'Disabled'])),
  description: jsonOptional(jsonText({ max: 1_000 })),
  document: jsonOptional(policyText),
  trust: jsonOptional(policyText),
  sessionSeconds: jsonOptional(jsonInteger({ min: 3_600, max: 43_200 })),
  tags: jsonOptional(jsonMap(jsonText({ max: 256 }), { max: 50 })),
  groups: texts(10),
  policies: texts(100),
  inlinePolicies: jsonOptional(jsonMap(policyText, { max: 256 })),
  boundary: jsonOptional(jsonText({ max: 2_048 })),
  keys: jsonOptional(
    jsonList(
      jsonObject({
        accessKey: jsonText({ max: 128 }),
        status: jsonChoice(['Active', 'Inactive']),
        secretKey: jsonOptional(jsonText({ max: 256 })),
      }),
      { max: 2 },
    ),
  ),
  quota,
};
const record = jsonObject(recordFields);

export const iamTransferRows = {
  ExportIam: {
    on: 'GET /accounts/:account/export',
    lists: { rows: ['accounts/{account}/{kind}/{name}'] },
    doc: 'Exports an account with its policies, groups, roles and users in the order in which an import needs them, without secrets of keys.',
    query: pagingBy(transferredMax),
    reply: jsonObject({ rows: jsonRows(record), next }),
  },
  ExportIamSecrets: {
    on: 'POST /accounts/:account/export-secrets',
    names: { accessKeys: noResource('Keys of other accounts are not found.') },
    doc: "Shows the secrets of access keys of an account's root and users, for an export.",
    secret: true,
    body: jsonObject({ accessKeys: jsonList(jsonText({ max: 128 }), { min: 1, max: 2 * transferredMax }) }),
    reply: jsonObject({ rows: jsonRows(jsonObject({ accessKey: jsonText(), secretKey: jsonText() })) }),
  },
  ImportIam: {
    on: 'POST /accounts/:account/import',
    names: {
      name: mention('accounts/{account}/{kind}/{name}'),
      groups: mention('accounts/{account}/groups/{groups}'),
      policies: mention('accounts/{policies.account}/policies/{policies.name}'),
      inlinePolicies: noResource('An inline policy is a part of its user, group or role.'),
      keys: noResource('They belong to the user or the root.'),
      accessKey: noResource('It belongs to the user or the root.'),
      secretKey: noResource('A secret.'),
    },
    doc: 'Creates what exported records name, and with `overwrite` changes what differs from them; says for each record what was done, or with `dryRun` what would be.',
    takesSecret: true,
    records: ['imported'],
    body: jsonObject({
      records: jsonList(record, { min: 1, max: transferredMax }),
      overwrite: jsonOptional(jsonBoolean),
      dryRun: jsonOptional(jsonBoolean),
    }),
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          kind: jsonText(),
          name: jsonText(),
          outcome: jsonChoice(['created', 'changed', 'unchanged', 'conflict']),
          changes: jsonRows(jsonText()),
          notes: jsonRows(longText),
        }),
      ),
    }),
  },
} as const satisfies AdminRows;

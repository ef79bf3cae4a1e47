/** Rows about accounts and what IAM keeps in them: users, groups, roles, policies and access keys. */
import {
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import {
  type AdminRows,
  count,
  isoTime,
  longText,
  mention,
  next,
  noResource,
  paging,
  pagingBy,
  part,
} from './row.ts';

const name = (max: number) =>
  jsonText({ max, pattern: /^[\w+=,.@-]+$/, must: 'letters, digits and any of _+=,.@-' });
const path = jsonText({
  max: 512,
  pattern: /^\/(?:[\x21-\x7e]*\/)?$/,
  must: '"/" or printable ASCII that begins and ends with "/"',
});
const description = jsonText({ max: 1_000 });
/** The longest text of a policy in a request. The function that stores a policy checks the largest size of its kind. */
export const policyTextMax = 131_072;
const document = jsonText({ max: policyTextMax, doc: 'The text of a policy document.' });
const policyArn = jsonText({ max: 2_048, doc: 'The ARN of a managed policy.' });
const tags = jsonMap(jsonText({ max: 256 }), { max: 50 });
const sessionSeconds = jsonInteger({ min: 3_600, max: 43_200 });

const entity = { name: jsonText(), id: jsonText(), arn: longText, path: jsonText(), created: isoTime };
const attached = { policies: jsonRows(longText), inlinePolicies: jsonRows(jsonText()) };
const accessKey = {
  accessKey: jsonText(),
  status: jsonChoice(['Active', 'Inactive']),
  created: isoTime,
  lastUsed: jsonOptional(isoTime),
};
const user = jsonObject({
  ...entity,
  ...attached,
  groups: jsonRows(jsonText()),
  accessKeys: jsonRows(jsonObject(accessKey)),
  mfaDevices: jsonRows(jsonText()),
  status: jsonChoice(['Active', 'Disabled']),
  boundary: jsonOptional(longText),
  tags,
});
const role = jsonObject({
  ...entity,
  ...attached,
  description,
  sessionSeconds,
  trust: document,
  boundary: jsonOptional(longText),
  tags,
});
const policyListed = {
  ...entity,
  description,
  updated: isoTime,
  defaultVersion: count,
  attachments: count,
  boundaries: count,
};
const holderKind = jsonChoice(['user', 'group', 'role']);
/** Entries of a page of ListIamPolicyEntities, unless the request says otherwise: each group is counted. */
export const policyEntitiesPageDefault = 100;
const policy = jsonObject({ ...policyListed, document });
const account = {
  account: jsonText(),
  displayName: jsonText(),
  email: jsonOptional(jsonText()),
  status: jsonChoice(['Active', 'Suspended']),
  isConfigured: jsonBoolean,
  isOperators: jsonBoolean,
};
const accountId = jsonText({
  max: 128,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._@-]*$/,
  must: '1 to 128 characters of A-Z, a-z, 0-9 and ._@- that begin with a letter or digit',
});
const displayName = jsonText({
  max: 256,
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
  pattern: /^[^\u0000-\u001f\u007f]+$/u,
  must: '1 to 256 characters without control characters',
});
const email = jsonText({ max: 320, pattern: /^[^\s@]{1,64}@[^\s@]{1,255}$/, must: 'an e-mail address' });
const mfaDevice = {
  name: jsonText(),
  serialNumber: longText,
  created: isoTime,
  enabled: jsonOptional(isoTime),
};
/** The seed in base32, and the address by which an authenticator app takes it. */
const mfaSeed = { serialNumber: longText, seed: jsonText(), uri: longText };
const mfaCode = jsonText({ max: 6, pattern: /^\d{6}$/, must: 'six digits' });
/** Two codes that the device shows one after the other. */
const mfaCodes = jsonObject({ code1: mfaCode, code2: mfaCode });
const rootKey = { accessKey: jsonText(), status: jsonChoice(['Active', 'Inactive']), created: isoTime };
const list = <T extends Parameters<typeof jsonObject>[0]>(fields: T) =>
  jsonObject({ rows: jsonRows(jsonObject(fields)), next });

export const accountRows = {
  ListAccounts: {
    on: 'GET /accounts',
    lists: { rows: ['accounts/{account}'] },
    doc: 'Lists the accounts of the settings, and those that operators created.',
    query: paging,
    reply: list(account),
  },
  GetAccount: {
    on: 'GET /accounts/:account',
    tenants: { account: 'account' },
    doc: 'Shows an account: what its buckets hold, its quota, the keys of its root, and how much IAM keeps in it.',
    reply: jsonObject({
      ...account,
      rootKeys: jsonRows(jsonObject(rootKey)),
      users: count,
      groups: count,
      roles: count,
      policies: count,
      bytes: count,
      objects: count,
      quota: jsonOptional(jsonObject({ maxBuckets: count, totalMaxBytes: count })),
    }),
  },
  CreateAccount: {
    on: 'POST /accounts',
    records: ['status', 'displayName', 'email', 'accessKeys'],
    names: {
      account: mention('accounts/{account}/create'),
      accessKey: noResource('The key does not exist yet.'),
      secretKey: noResource('A secret.'),
    },
    doc: 'Creates an account and a key of its root; the secret is shown in this reply only. `accessKey` and `secretKey` take over a key that its clients have. An id that has buckets or IAM records, because its keys left the settings, needs `adopt`: the account then has them, and its users are served again.',
    secret: true,
    takesSecret: true,
    body: jsonObject({
      account: accountId,
      displayName: jsonOptional(displayName),
      email: jsonOptional(email),
      accessKey: jsonOptional(
        jsonText({
          max: 128,
          pattern: /^[A-Za-z0-9._=+@-]{3,}$/,
          must: '3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-',
        }),
      ),
      secretKey: jsonOptional(
        jsonText({
          max: 256,
          pattern: /^[\x21-\x7e]{8,}$/,
          must: '8 to 256 printable ASCII characters without spaces',
        }),
      ),
      adopt: jsonOptional(jsonBoolean),
    }),
    reply: jsonObject({ ...account, accessKey: jsonText(), secretKey: jsonText({ max: 256 }) }),
  },
  PutAccount: {
    on: 'PUT /accounts/:account',
    records: ['status', 'displayName', 'email'],
    doc: 'Changes the fields that are sent. `Suspended` refuses every key, user, role and session of the account at once, also the sessions that they opened of roles of other accounts; `Active` serves them again. An empty e-mail address removes it.',
    body: jsonObject({
      displayName: jsonOptional(displayName),
      email: jsonOptional(
        jsonText({
          max: 320,
          pattern: /^(?:[^\s@]{1,64}@[^\s@]{1,255})?$/,
          must: 'an e-mail address, or empty',
        }),
      ),
      status: jsonOptional(jsonChoice(['Active', 'Suspended'])),
    }),
    reply: jsonObject(account),
  },
  DeleteAccount: {
    on: 'DELETE /accounts/:account',
    records: ['status'],
    doc: 'Deletes an account that owns no bucket, with its users, roles, policies and keys. Its id is not used again.',
  },
  CreateRootKey: {
    on: 'POST /accounts/:account/root-keys',
    records: ['accessKeys'],
    doc: "Creates a further key of the account's root, two at most; its secret is shown in this reply only.",
    secret: true,
    reply: jsonObject({ ...rootKey, secretKey: jsonText() }),
  },
  PutRootKey: {
    on: 'PUT /accounts/:account/root-keys/:key',
    records: ['accessKeys'],
    doc: "Makes a key of the account's root active or inactive; its last active key stays active.",
    body: jsonObject({ status: jsonChoice(['Active', 'Inactive']) }),
  },
  DeleteRootKey: {
    on: 'DELETE /accounts/:account/root-keys/:key',
    records: ['accessKeys'],
    doc: "Deletes a key of the account's root, but not its last active one.",
  },
} as const satisfies AdminRows;

const inlineRows = <const Kind extends 'user' | 'group' | 'role'>(kind: Kind) => {
  const path = `/accounts/:account/${kind}s/:${kind}/inline-policies` as const;
  const names = {
    policy: noResource('An inline policy is a part of its user, group or role.'),
  };
  return {
    list: {
      on: `GET ${path}`,
      doc: `Lists the inline policies of a ${kind}.`,
      query: paging,
      reply: list({ name: jsonText() }),
    },
    get: {
      on: `GET ${path}/:policy`,
      names,
      doc: `Shows an inline policy of a ${kind}.`,
      reply: jsonObject({ name: jsonText(), document }),
    },
    put: {
      on: `PUT ${path}/:policy`,
      names,
      digests: ['inlinePolicies'],
      doc: `Creates an inline policy of a ${kind}, or replaces its document.`,
      body: jsonObject({ document }),
    },
    remove: {
      on: `DELETE ${path}/:policy`,
      names,
      digests: ['inlinePolicies'],
      doc: `Deletes an inline policy of a ${kind}.`,
    },
  } as const;
};
const ofUser = inlineRows('user');
const ofGroup = inlineRows('group');
const ofRole = inlineRows('role');

export const inlinePolicyRows = {
  ListIamUserInlinePolicies: ofUser.list,
  GetIamUserInlinePolicy: ofUser.get,
  PutIamUserInlinePolicy: ofUser.put,
  DeleteIamUserInlinePolicy: ofUser.remove,
  ListIamGroupInlinePolicies: ofGroup.list,
  GetIamGroupInlinePolicy: ofGroup.get,
  PutIamGroupInlinePolicy: ofGroup.put,
  DeleteIamGroupInlinePolicy: ofGroup.remove,
  ListIamRoleInlinePolicies: ofRole.list,
  GetIamRoleInlinePolicy: ofRole.get,
  PutIamRoleInlinePolicy: ofRole.put,
  DeleteIamRoleInlinePolicy: ofRole.remove,
} as const satisfies AdminRows;

/** MFA devices: of the users of an account, and of the caller itself. */
export const mfaRows = {
  ListIamMfaDevices: {
    on: 'GET /accounts/:account/mfa-devices',
    lists: { rows: ['accounts/{account}/mfa-devices/{name}', 'accounts/{account}/users/{user}'] },
    names: { user: mention('accounts/{account}/users/{user}/mfa-devices') },
    doc: 'Lists the virtual MFA devices of an account: all, those of a user, or those that no user has enabled yet.',
    query: {
      ...paging,
      user: jsonOptional(name(64)),
      assignment: jsonOptional(jsonChoice(['Assigned', 'Unassigned'])),
    },
    /** `user`: absent where the device is not enabled, and where it is the root's. */
    reply: list({ ...mfaDevice, user: jsonOptional(jsonText()), isRoot: jsonBoolean }),
  },
  CreateIamMfaDevice: {
    on: 'POST /accounts/:account/mfa-devices',
    records: ['devices'],
    names: { name: mention('accounts/{account}/mfa-devices/{name}') },
    doc: 'Creates a virtual MFA device; its seed is shown in this reply only. EnableIamMfaDevice makes it the device of a user.',
    secret: true,
    body: jsonObject({ name: name(128) }),
    reply: jsonObject({ ...mfaDevice, ...mfaSeed }),
  },
  DeleteIamMfaDevice: {
    on: 'DELETE /accounts/:account/mfa-devices/:device',
    records: ['devices'],
    doc: 'Deletes a virtual MFA device that no user has enabled.',
  },
  EnableIamMfaDevice: {
    on: 'PUT /accounts/:account/users/:user/mfa-devices/:device',
    records: ['devices'],
    names: { device: mention('accounts/{account}/mfa-devices/{device}') },
    doc: 'Enables a virtual MFA device for a user, with two codes that it shows one after the other.',
    takesSecret: true,
    body: mfaCodes,
  },
  DeactivateIamMfaDevice: {
    on: 'DELETE /accounts/:account/users/:user/mfa-devices/:device',
    records: ['devices'],
    names: { device: mention('accounts/{account}/mfa-devices/{device}') },
    doc: 'Makes the codes of an MFA device of a user invalid; the device stays, and can be enabled again.',
  },
  ResyncIamMfaDevice: {
    on: 'POST /accounts/:account/users/:user/mfa-devices/:device/resync',
    records: ['devices'],
    names: { device: mention('accounts/{account}/mfa-devices/{device}') },
    doc: 'Measures how far the clock of an MFA device is off, up to ten minutes, with two codes that it shows one after the other.',
    takesSecret: true,
    body: mfaCodes,
    status: 204,
  },
  ListOwnMfaDevices: {
    on: 'GET /session/mfa-devices',
    doc: 'Lists the MFA devices of the caller itself, where IAM allows iam:ListMFADevices.',
    callers: 'known',
    /** `unassigned`: devices of the account that no user has enabled, where IAM allows iam:ListVirtualMFADevices. */
    reply: jsonObject({
      mfaDevices: jsonRows(jsonObject(mfaDevice)),
      unassigned: jsonOptional(jsonRows(jsonObject(mfaDevice))),
    }),
  },
  CreateOwnMfaDevice: {
    on: 'POST /session/mfa-devices',
    records: ['devices'],
    names: { name: mention('accounts/{own}/mfa-devices/{name}') },
    doc: 'Creates a virtual MFA device, where IAM allows iam:CreateVirtualMFADevice; its seed is shown in this reply only.',
    callers: 'known',
    secret: true,
    body: jsonObject({ name: name(128) }),
    reply: jsonObject({ ...mfaDevice, ...mfaSeed }),
  },
  EnableOwnMfaDevice: {
    on: 'PUT /session/mfa-devices/:device',
    records: ['devices'],
    doc: 'Enables a virtual MFA device for the caller itself, with two codes that it shows one after the other, where IAM allows iam:EnableMFADevice.',
    callers: 'known',
    takesSecret: true,
    body: mfaCodes,
  },
  ResyncOwnMfaDevice: {
    on: 'POST /session/mfa-devices/:device/resync',
    records: ['devices'],
    doc: 'Measures how far the clock of an MFA device of the caller itself is off, where IAM allows iam:ResyncMFADevice.',
    callers: 'known',
    takesSecret: true,
    body: mfaCodes,
    status: 204,
  },
  DeleteOwnMfaDevice: {
    on: 'DELETE /session/mfa-devices/:device',
    records: ['devices'],
    doc: 'Deactivates an MFA device of the caller itself where it is enabled, and deletes it, where IAM allows iam:DeactivateMFADevice and iam:DeleteVirtualMFADevice.',
    callers: 'known',
  },
} as const satisfies AdminRows;

export const iamRows = {
  ListIamUsers: {
    on: 'GET /accounts/:account/users',
    lists: { rows: ['accounts/{account}/users/{name}'] },
    doc: 'Lists the users of an account.',
    query: paging,
    reply: list(entity),
  },
  CreateIamUser: {
    on: 'POST /accounts/:account/users',
    records: ['name', 'path', 'status'],
    names: { name: mention('accounts/{account}/users/{name}') },
    doc: 'Creates a user.',
    body: jsonObject({ name: name(64), path: jsonOptional(path), tags: jsonOptional(tags) }),
    reply: user,
  },
  GetIamUser: {
    on: 'GET /accounts/:account/users/:user',
    doc: 'Shows a user with its groups, policies, access keys and MFA devices.',
    reply: user,
  },
  PutIamUser: {
    on: 'PUT /accounts/:account/users/:user',
    records: ['name', 'path', 'status'],
    names: { name: part('accounts/{account}/users/{name}') },
    doc: 'Renames or moves a user, replaces its tags, or disables it. `Disabled` refuses its keys and sessions at once, also those of roles that it has assumed; `Active` serves them again.',
    body: jsonObject({
      name: jsonOptional(name(64)),
      path: jsonOptional(path),
      tags: jsonOptional(tags),
      status: jsonOptional(jsonChoice(['Active', 'Disabled'])),
    }),
    reply: user,
  },
  DeleteIamUser: {
    on: 'DELETE /accounts/:account/users/:user',
    records: ['name', 'path', 'status'],
    doc: 'Deletes a user that has no keys, policies, groups or MFA devices.',
  },
  CreateIamAccessKey: {
    on: 'POST /accounts/:account/users/:user/access-keys',
    records: ['accessKeys'],
    doc: 'Creates an access key; its secret is shown in this reply only.',
    secret: true,
    reply: jsonObject({ ...accessKey, secretKey: jsonText() }),
  },
  PutIamAccessKey: {
    on: 'PUT /accounts/:account/users/:user/access-keys/:key',
    records: ['accessKeys'],
    doc: 'Makes an access key active or inactive.',
    body: jsonObject({ status: jsonChoice(['Active', 'Inactive']) }),
  },
  DeleteIamAccessKey: {
    on: 'DELETE /accounts/:account/users/:user/access-keys/:key',
    records: ['accessKeys'],
    doc: 'Deletes an access key.',
  },
  ListIamGroups: {
    on: 'GET /accounts/:account/groups',
    lists: { rows: ['accounts/{account}/groups/{name}'] },
    doc: 'Lists the groups of an account.',
    query: paging,
    reply: list(entity),
  },
  CreateIamGroup: {
    on: 'POST /accounts/:account/groups',
    records: ['name', 'path'],
    names: { name: mention('accounts/{account}/groups/{name}') },
    doc: 'Creates a group.',
    body: jsonObject({ name: name(128), path: jsonOptional(path) }),
    reply: jsonObject(entity),
  },
  GetIamGroup: {
    on: 'GET /accounts/:account/groups/:group',
    doc: 'Shows a group with its policies and a page of its users.',
    query: paging,
    reply: jsonObject({ ...entity, ...attached, users: jsonRows(jsonText()), next }),
  },
  DeleteIamGroup: {
    on: 'DELETE /accounts/:account/groups/:group',
    records: ['name', 'path'],
    doc: 'Deletes a group that has no users and no policies.',
  },
  PutIamGroupUser: {
    on: 'PUT /accounts/:account/groups/:group/users/:user',
    records: ['users'],
    names: { user: mention('accounts/{account}/users/{user}') },
    doc: 'Adds a user to a group.',
  },
  DeleteIamGroupUser: {
    on: 'DELETE /accounts/:account/groups/:group/users/:user',
    records: ['users'],
    names: { user: mention('accounts/{account}/users/{user}') },
    doc: 'Removes a user from a group.',
  },
  ListIamRoles: {
    on: 'GET /accounts/:account/roles',
    lists: { rows: ['accounts/{account}/roles/{name}'] },
    doc: 'Lists the roles of an account.',
    query: paging,
    reply: list(entity),
  },
  CreateIamRole: {
    on: 'POST /accounts/:account/roles',
    records: ['name', 'path', 'sessionSeconds'],
    digests: ['trust'],
    names: { name: mention('accounts/{account}/roles/{name}') },
    doc: 'Creates a role with its trust policy.',
    body: jsonObject({
      name: name(64),
      path: jsonOptional(path),
      trust: document,
      description: jsonOptional(description),
      sessionSeconds: jsonOptional(sessionSeconds),
      tags: jsonOptional(tags),
    }),
    reply: role,
  },
  GetIamRole: {
    on: 'GET /accounts/:account/roles/:role',
    doc: 'Shows a role with its trust policy and its policies.',
    reply: role,
  },
  PutIamRole: {
    on: 'PUT /accounts/:account/roles/:role',
    records: ['sessionSeconds'],
    digests: ['trust'],
    doc: 'Changes the description, the longest session, the tags or the trust policy of a role.',
    body: jsonObject({
      trust: jsonOptional(document),
      description: jsonOptional(description),
      sessionSeconds: jsonOptional(sessionSeconds),
      tags: jsonOptional(tags),
    }),
    reply: role,
  },
  DeleteIamRole: {
    on: 'DELETE /accounts/:account/roles/:role',
    records: ['name', 'path', 'sessionSeconds'],
    doc: 'Deletes a role that has no policies.',
  },
  ListIamPolicies: {
    on: 'GET /accounts/:account/policies',
    lists: { rows: ['accounts/{account}/policies/{name}'] },
    doc: 'Lists the managed policies of an account.',
    query: paging,
    reply: list(policyListed),
  },
  CreateIamPolicy: {
    on: 'POST /accounts/:account/policies',
    records: ['name', 'path', 'defaultVersion'],
    digests: ['document'],
    names: { name: mention('accounts/{account}/policies/{name}') },
    doc: 'Creates a managed policy.',
    body: jsonObject({
      name: name(128),
      path: jsonOptional(path),
      description: jsonOptional(description),
      document,
      tags: jsonOptional(tags),
    }),
    reply: policy,
  },
  GetIamPolicy: {
    on: 'GET /accounts/:account/policies/:policy',
    doc: 'Shows a managed policy with the document of its default version.',
    reply: policy,
  },
  ListIamPolicyEntities: {
    on: 'GET /accounts/:account/policies/:policy/entities',
    lists: { rows: ['accounts/{account}/{kind}s/{name}'] },
    doc: 'Lists the users, groups and roles that a managed policy is attached to, or whose permissions boundary it is.',
    query: pagingBy(policyEntitiesPageDefault),
    /** `users`: of a group, counted up to 1,000. */
    reply: list({
      kind: holderKind,
      name: jsonText(),
      arn: longText,
      use: jsonChoice(['policy', 'boundary']),
      users: jsonOptional(count),
    }),
  },
  PutIamPolicy: {
    on: 'PUT /accounts/:account/policies/:policy',
    records: ['defaultVersion'],
    digests: ['document'],
    doc: 'Gives a managed policy a new default version; where it has five, the oldest other version is deleted.',
    body: jsonObject({ document }),
    reply: policy,
  },
  DeleteIamPolicy: {
    on: 'DELETE /accounts/:account/policies/:policy',
    records: ['name', 'path', 'defaultVersion'],
    doc: 'Deletes a managed policy that is attached to nothing, with all its versions.',
  },
  AttachIamPolicy: {
    on: 'POST /accounts/:account/attachments',
    records: ['policies'],
    names: {
      name: mention('accounts/{account}/{kind}s/{name}/attachments'),
      policy: mention('accounts/{policy.account}/policies/{policy.name}/attachments'),
    },
    doc: 'Attaches a managed policy to a user, a group or a role.',
    body: jsonObject({ kind: holderKind, name: name(128), policy: policyArn }),
    status: 204,
  },
  DetachIamPolicy: {
    on: 'POST /accounts/:account/detachments',
    records: ['policies'],
    names: {
      name: mention('accounts/{account}/{kind}s/{name}/detachments'),
      policy: mention('accounts/{policy.account}/policies/{policy.name}/detachments'),
    },
    doc: 'Detaches a managed policy from a user, a group or a role.',
    body: jsonObject({ kind: holderKind, name: name(128), policy: policyArn }),
    status: 204,
  },
} as const satisfies AdminRows;

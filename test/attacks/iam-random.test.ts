/**
 * Random actions with random parameters by all callers: every one is answered without an internal error, and the records stay consistent.
 */
import { describe, expect, test } from 'vitest';
import { iamOperations } from '../../src/protocol/operations/iam.ts';
import { openActions, type Parameters } from '../support/actions.ts';
import { backends, bob, openGateway } from '../support/gateway.ts';
import { allow, everyPage, must, openUser, sessionOf, trusting } from '../support/iam-users.ts';

type Roll = (sides: number) => number;

/** A small random generator: the same seed gives the same requests. */
function dice(seed: number): Roll {
  let state = seed >>> 0;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % sides;
  };
}
const pick = <T>(roll: Roll, values: readonly T[]): T => values[roll(values.length)] as T;

const arn = (rest: string): string => `arn:aws:iam::alice-account:${rest}`;
const odd = [
  '',
  ' ',
  '*',
  '../..',
  '__proto__',
  'constructor',
  'x'.repeat(3_000),
  'é',
  '\0',
  '%00',
  '-1',
  '1e9',
  'true',
  'null',
  `\${aws:username}`,
];
const names = ['a', 'a', 'a', 'b', 'A', '__proto__'];
const trust = trusting({ AWS: 'alice-account' });
const documents = [allow('s3:*'), allow('iam:*', 'sts:*'), allow('s3:Get*'), trust, '{}'];
const policies = ['policy/a', 'policy/a', 'policy/x/a', 'user/a']
  .map(arn)
  .concat('arn:aws:iam::aws:policy/AmazonS3FullAccess');

/** Valid values by parameter; every parameter also gets invalid ones. */
const values: Readonly<Record<string, readonly string[]>> = {
  UserName: names,
  GroupName: names,
  RoleName: names,
  PolicyName: names,
  NewUserName: names,
  NewGroupName: names,
  VirtualMFADeviceName: names,
  RoleSessionName: ['session', 'x'],
  Path: ['/', '/x/', '/x/y/'],
  NewPath: ['/', '/x/'],
  PathPrefix: ['/', '/x'],
  PolicyDocument: documents,
  AssumeRolePolicyDocument: [trust, trusting('*'), '{}'],
  Policy: documents,
  'PolicyInputList.member.1': documents,
  PolicyArn: policies,
  PermissionsBoundary: policies,
  'PolicyArns.member.1.arn': policies,
  VersionId: ['v1', 'v2', 'v3'],
  SetAsDefault: ['true', 'false'],
  RoleArn: ['role/a', 'role/b', 'role/x/a'].map(arn),
  PolicySourceArn: ['user/a', 'group/a', 'role/a'].map(arn),
  SerialNumber: ['mfa/a', 'mfa/b'].map(arn),
  AuthenticationCode1: ['123456'],
  AuthenticationCode2: ['123457'],
  TokenCode: ['123456'],
  AccessKeyId: ['AKIAAAAAAAAAAAAAAAAA', 'KEY-alice'],
  Status: ['Active', 'Inactive'],
  DurationSeconds: ['900', '3600'],
  MaxSessionDuration: ['3600', '43200'],
  MaxItems: ['1', '1000'],
  Marker: ['eyJhZnRlciI6ImEifQ', 'a'],
  Description: ['text'],
  Scope: ['All', 'AWS', 'Local'],
  OnlyAttached: ['true'],
  EntityFilter: ['User', 'Group', 'Role'],
  PolicyUsageFilter: ['PermissionsPolicy', 'PermissionsBoundary'],
  AssignmentStatus: ['Any', 'Assigned'],
  'ActionNames.member.1': ['s3:GetObject', 'iam:*'],
  'ResourceArns.member.1': ['*', 'arn:aws:s3:::a/b'],
  ExternalId: ['secret'],
  'Tags.member.1.Key': ['Team'],
  'Tags.member.1.Value': ['blue', ''],
  'TagKeys.member.1': ['Team'],
  'TransitiveTagKeys.member.1': ['Team'],
  'ContextEntries.member.1.ContextKeyName': ['aws:SourceIp'],
  'ContextEntries.member.1.ContextKeyValues.member.1': ['10.0.0.1', 'x'],
  UserNames: [''],
  'Tags.member.x': ['y'],
  'a.b.c.d.e.f.g': ['z'],
};

/** The parameters that actions usually require. */
const required: readonly (readonly [RegExp, readonly string[]])[] = [
  [/User|AccessKey$|AccessKeys$|EnableMFA|DeactivateMFA/, ['UserName']],
  [/Group/, ['GroupName']],
  [/Role$|RolePolic|RoleTags|TagRole|RolePermissions|RoleDescription|AssumeRolePolicy/, ['RoleName']],
  [/^(Put|Get|Delete)(User|Group|Role)Policy$|^CreatePolicy$/, ['PolicyName']],
  [
    /^Put(User|Group|Role)Policy$|^CreatePolicy$|CreatePolicyVersion|UpdateAssumeRolePolicy/,
    ['PolicyDocument'],
  ],
  [/^CreateRole$/, ['AssumeRolePolicyDocument']],
  [/Attach|Detach|PolicyVersion|^(Get|Delete|Tag|Untag)Policy$|ListPolicyTags|ListEntities/, ['PolicyArn']],
  [/^(Get|SetDefault|Delete)\w*PolicyVersion$/, ['VersionId']],
  [/^Put\w+Boundary$/, ['PermissionsBoundary']],
  [/^AssumeRole$/, ['RoleArn', 'RoleSessionName']],
  [/^Tag/, ['Tags.member.1.Key', 'Tags.member.1.Value']],
  [/^Untag/, ['TagKeys.member.1']],
  [/Simulate/, ['ActionNames.member.1']],
  [/SimulateCustom/, ['PolicyInputList.member.1']],
  [/SimulatePrincipal/, ['PolicySourceArn']],
  [/CreateVirtual/, ['VirtualMFADeviceName']],
  [/EnableMFA|DeactivateMFA|DeleteVirtual/, ['SerialNumber']],
  [/^(Update|Delete)AccessKey$|AccessKeyInfo|LastUsed/, ['AccessKeyId']],
  [/^UpdateAccessKey$/, ['Status']],
  [/RoleDescription/, ['Description']],
];

function ask(roll: Roll, action: string): Parameters {
  const wanted = required.filter(([pattern]) => pattern.test(action)).flatMap(([, fields]) => fields);
  const isListed = /^List(Users|Groups|Roles|Policies|Virtual)/.test(action);
  const given: Record<string, string> = {};
  for (const name of isListed ? [] : wanted) given[name] = pick(roll, values[name] ?? odd);
  const mischief = roll(10);
  if (mischief === 0) given[pick(roll, Object.keys(values))] = pick(roll, odd);
  if (mischief === 1) delete given[pick(roll, [...Object.keys(given), ''])];
  if (mischief === 2) given[pick(roll, wanted.length > 0 ? wanted : ['Path'])] = pick(roll, odd);
  if (mischief === 3) {
    const name = pick(roll, Object.keys(values));
    given[name] = pick(roll, values[name] ?? odd);
  }
  return given;
}

const actionNames = Object.keys(iamOperations);
const rounds = 20;

describe.each(backends)('on %s', (backend) => {
  test.each([1, 2, 3])(
    'no action of seed %i is an internal error, and the counts stay right',
    async (seed) => {
      await using world = await openGateway({ backend });
      const iam = openActions(world);
      const admin = await openUser(world, 'admin', { policy: allow('*') });
      const session = sessionOf(world, await must(admin.act('GetSessionToken')));
      const callers = [iam, iam, iam, admin.act, openActions(world, { credential: bob }), session.act];
      const roll = dice(seed);
      let done = 0;
      for (let round = 0; round < rounds; round += 1) {
        for (const action of actionNames) {
          const parameters = ask(roll, action);
          const answer = await pick(roll, callers)(action, parameters);
          const at = `seed ${seed}, ${action} ${JSON.stringify(parameters)}: ${answer.text}`;
          expect(answer.status < 500, at).toBe(true);
          expect(answer.text, at).toMatch(/Response xmlns="https:\/\/(iam|sts)\.amazonaws\.com\/doc\//);
          if (answer.status === 200) done += 1;
        }
      }
      expect(done / (rounds * actionNames.length)).toBeGreaterThan(0.15);
      const summary = (await must(iam('GetAccountSummary'))).text;
      for (const [action, element, key] of [
        ['ListUsers', 'UserName', 'Users'],
        ['ListGroups', 'GroupName', 'Groups'],
        ['ListRoles', 'RoleName', 'Roles'],
        ['ListVirtualMFADevices', 'SerialNumber', 'MFADevices'],
      ] as const) {
        const { length } = await everyPage(iam, action, { element, size: 2 });
        expect(summary).toContain(`<key>${key}</key><value>${length}</value>`);
      }
    },
  );
});

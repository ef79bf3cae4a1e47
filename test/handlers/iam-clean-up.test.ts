/** The calls with which clients, such as Terraform, look for what hangs on a user or role before they delete it. */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { bob, openGateway } from '../support/gateway.ts';
import { allow, must, openUser, trusting } from '../support/iam-users.ts';

const lists = [
  ['ListInstanceProfilesForRole', { RoleName: 'reader' }, 'InstanceProfiles'],
  ['ListInstanceProfiles', { PathPrefix: '/' }, 'InstanceProfiles'],
  ['ListSSHPublicKeys', { UserName: 'dave', MaxItems: '10' }, 'SSHPublicKeys'],
  ['ListSigningCertificates', { UserName: 'dave' }, 'Certificates'],
  ['ListServiceSpecificCredentials', { UserName: 'dave', ServiceName: 's' }, 'ServiceSpecificCredentials'],
  ['ListMFADevices', { UserName: 'dave' }, 'MFADevices'],
  ['ListVirtualMFADevices', { AssignmentStatus: 'Any' }, 'VirtualMFADevices'],
  ['ListAttachedUserPolicies', { UserName: 'dave' }, 'AttachedPolicies'],
  ['ListGroupsForUser', { UserName: 'dave' }, 'Groups'],
  ['ListAccountAliases', {}, 'AccountAliases'],
  ['ListServerCertificates', {}, 'ServerCertificateMetadataList'],
  ['ListSAMLProviders', {}, 'SAMLProviderList'],
  ['ListOpenIDConnectProviders', {}, 'OpenIDConnectProviderList'],
] as const;
const singles = [
  ['GetLoginProfile', { UserName: 'dave' }],
  ['DeleteLoginProfile', { UserName: 'dave' }],
  ['UpdateLoginProfile', { UserName: 'dave', Password: 'x' }],
  ['GetInstanceProfile', { InstanceProfileName: 'p' }],
  ['DeleteInstanceProfile', { InstanceProfileName: 'p' }],
  ['RemoveRoleFromInstanceProfile', { InstanceProfileName: 'p', RoleName: 'reader' }],
  ['GetSSHPublicKey', { UserName: 'dave', SSHPublicKeyId: 'k', Encoding: 'PEM' }],
  ['DeleteSSHPublicKey', { UserName: 'dave', SSHPublicKeyId: 'k' }],
  ['DeleteSigningCertificate', { UserName: 'dave', CertificateId: 'c' }],
  ['DeleteServiceSpecificCredential', { UserName: 'dave', ServiceSpecificCredentialId: 'c' }],
  ['DeleteAccountAlias', { AccountAlias: 'a' }],
  ['GetAccountPasswordPolicy', {}],
  ['DeleteAccountPasswordPolicy', {}],
  ['GetServerCertificate', { ServerCertificateName: 'c' }],
  ['DeleteServerCertificate', { ServerCertificateName: 'c' }],
] as const;

async function openFilled() {
  const world = await openGateway();
  const iam = openActions(world);
  await must(iam('CreateUser', { UserName: 'dave' }));
  await must(
    iam('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument: trusting({ AWS: 'alice-account' }) }),
  );
  return Object.assign(world, { iam });
}

describe('of what does not exist here', () => {
  test('lists are empty', async () => {
    await using world = await openFilled();
    for (const [name, parameters, list] of lists) {
      const answer = await must(world.iam(name, parameters));
      expect([answer.one(list), answer.all('member'), answer.one('IsTruncated')], name).toEqual([
        '',
        [],
        'false',
      ]);
    }
  });

  test('single ones are NoSuchEntity 404', async () => {
    await using world = await openFilled();
    for (const [name, parameters] of singles) {
      const answer = await world.iam(name, parameters);
      expect([answer.status, answer.code], name).toEqual([404, 'NoSuchEntity']);
    }
  });

  test('a user or role that does not exist is NoSuchEntity', async () => {
    await using world = await openFilled();
    for (const [name, parameters] of [...lists, ...singles]) {
      if (!('UserName' in parameters || 'RoleName' in parameters)) continue;
      const missing = {
        ...parameters,
        ...('UserName' in parameters ? { UserName: 'x' } : { RoleName: 'x' }),
      };
      const answer = await world.iam(name, missing);
      expect([answer.status, answer.code], name).toEqual([404, 'NoSuchEntity']);
      expect(answer.one('Message')).toContain('with name x');
    }
  });

  test('a caller is asked for the permission of the action, and without a name it is the caller', async () => {
    await using world = await openFilled();
    const { act } = await openUser(world, 'carol', { policy: allow('iam:ListSSHPublicKeys') });
    await must(act('ListSSHPublicKeys', {}));
    await must(world.iam('ListSSHPublicKeys', {}));
    for (const [name, parameters] of [...lists, ...singles]) {
      if (name === 'ListSSHPublicKeys') continue;
      const answer = await act(name, parameters);
      expect([answer.status, answer.code], name).toEqual([403, 'AccessDenied']);
    }
    const ofBob = openActions(world, { credential: bob });
    expect((await ofBob('ListSSHPublicKeys', { UserName: 'dave' })).code).toBe('NoSuchEntity');
  });

  test('an unknown action stays InvalidAction, and an unknown parameter is refused', async () => {
    await using world = await openFilled();
    expect((await world.iam('CreateInstanceProfile', { InstanceProfileName: 'p' })).code).toBe(
      'InvalidAction',
    );
    expect((await world.iam('ListSSHPublicKeys', { RoleName: 'reader' })).code).toBe('ValidationError');
  });
});

describe('a condition key of another service', () => {
  const policy = (Effect: 'Allow' | 'Deny', Condition: object, Action: string | string[] = 's3:*') =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 's3:GetObject', Resource: '*' },
        { Effect, Action, Resource: '*', Condition },
      ],
    });
  const put = (world: Awaited<ReturnType<typeof openFilled>>, PolicyDocument: string) =>
    world.iam('PutUserPolicy', { UserName: 'carol', PolicyName: 'test', PolicyDocument });

  test('is accepted in an IAM policy, and no request has it', async () => {
    await using world = await openFilled();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    const carol = world.as({ credential: (await openUser(world, 'carol')).credential });
    const statuses = async () => [
      (await carol.get('/bucket/key')).status,
      (await carol.put('/bucket/new', { body: 'x' })).status,
    ];
    for (const [effect, condition, expected] of [
      ['Allow', { StringEquals: { 'ec2:InstanceType': 't2.micro' } }, [200, 403]],
      ['Allow', { StringEquals: { 'kms:ViaService': 's3.eu-west-1.amazonaws.com' } }, [200, 403]],
      ['Allow', { StringEqualsIfExists: { 'ec2:InstanceType': 't2.micro' } }, [200, 200]],
      ['Allow', { Null: { 'ec2:InstanceType': 'true' } }, [200, 200]],
      ['Allow', { 'ForAnyValue:StringLike': { 'dynamodb:LeadingKeys': ['*'] } }, [200, 403]],
      ['Deny', { StringLike: { 'ec2:ResourceTag/Name': '*' } }, [200, 403]],
      ['Deny', { StringNotEquals: { 'ec2:InstanceType': 't2.micro' } }, [403, 403]],
      ['Allow', { StringEquals: { 'cognito-identity.amazonaws.com:sub': 'x' } }, [200, 403]],
    ] as const) {
      expect((await put(world, policy(effect, condition))).status, JSON.stringify(condition)).toBe(200);
      expect(await statuses(), JSON.stringify(condition)).toEqual(expected);
    }
  });

  test('is refused in a Deny where it is a key of KMS, in a bucket policy, and where it is misspelt', async () => {
    await using world = await openFilled();
    await openUser(world, 'carol');
    await world.client.put('/bucket');
    for (const document of [
      policy('Deny', { StringEquals: { 'kms:ViaService': 'x' } }),
      policy('Allow', { StringEquals: { 's3:nonsense': 'x' } }),
      policy('Deny', { StringEquals: { 'aws:SourceIpp': 'x' } }),
      policy('Deny', { StringEquals: { nonsense: 'x' } }),
      policy('Deny', { StringEquals: { 'ec2:': 'x' } }),
    ])
      expect((await put(world, document)).code, document).toBe('MalformedPolicyDocument');
    const body = JSON.stringify({
      Version: '2012-10-17',
      Statement: {
        Effect: 'Deny',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: 'arn:aws:s3:::bucket/*',
        Condition: { StringEquals: { 'ec2:InstanceType': 't2.micro' } },
      },
    });
    expect((await world.client.put('/bucket?policy', { body })).code).toBe('MalformedPolicy');
  });
});

describe('a principal without an account', () => {
  const policy = (AWS: string, { element = 'Principal', Effect = 'Allow', Action = 's3:GetObject' } = {}) =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: { Effect, [element]: { AWS }, Action, Resource: 'arn:aws:s3:::bucket/*' },
    });

  test('is a user or role of the account that owns the bucket', async () => {
    await using world = await openFilled();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    const clients = {
      carol: world.as({ credential: (await openUser(world, 'carol')).credential }),
      erin: world.as({ credential: (await openUser(world, 'erin')).credential }),
      // A user of the same name in another account.
      ofBob: world.as({
        credential: (await openUser(world, 'carol', { root: bob, policy: allow('s3:*') })).credential,
      }),
    };
    const statuses = async () =>
      Promise.all(Object.values(clients).map(async (each) => (await each.get('/bucket/key')).status));
    const body = policy('arn:aws:iam:::user/carol');
    expect((await client.put('/bucket?policy', { body })).status).toBe(204);
    expect((await client.get('/bucket?policy')).text).toBe(body);
    expect(await statuses()).toEqual([200, 403, 403]);
    expect((await client.get('/bucket?policyStatus')).one('IsPublic')).toBe('false');
    // All but carol are denied.
    const open = JSON.parse(policy('*')).Statement;
    const deny = JSON.parse(policy('arn:aws:iam:::user/carol', { element: 'NotPrincipal', Effect: 'Deny' }));
    const both = JSON.stringify({ Version: '2012-10-17', Statement: [open, deny.Statement] });
    expect((await client.put('/bucket?policy', { body: both })).status).toBe(204);
    expect(await statuses()).toEqual([200, 403, 403]);
    for (const wrong of [
      'arn:aws:iam:::carol',
      'arn:aws:iam:::group/carol',
      'arn:aws:sts:::assumed-role/a/b',
    ])
      expect((await client.put('/bucket?policy', { body: policy(wrong) })).code, wrong).toBe(
        'MalformedPolicy',
      );
  });

  test('in a trust policy is one of the account of the role', async () => {
    await using world = await openFilled();
    const trust = trusting({ AWS: 'arn:aws:iam:::user/carol' });
    await must(world.iam('CreateRole', { RoleName: 'own', AssumeRolePolicyDocument: trust }));
    const assume = { RoleArn: 'arn:aws:iam::alice-account:role/own', RoleSessionName: 'session' };
    await must((await openUser(world, 'carol')).act('AssumeRole', assume));
    expect((await (await openUser(world, 'erin')).act('AssumeRole', assume)).code).toBe('AccessDenied');
    const other = await openUser(world, 'carol', { root: bob, policy: allow('sts:*') });
    expect((await other.act('AssumeRole', assume)).code).toBe('AccessDenied');
  });
});

/** Each operation of the operator API that changes a configuration says which fields its audit row records; none of them is a secret. */
import { expect, test } from 'vitest';
import type { LogLevelControl } from '../../src/ports/telemetry.ts';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { operatorOf } from '../support/clusters.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { openGateway } from '../support/gateway.ts';
import { allow, openUser, trusting } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';
import { isSecretField } from '../support/secret-fields.ts';

test('no operation records a field whose name is that of a secret', () => {
  const wrong = adminOperationNames.flatMap((name) => {
    const { records = [], digests = [] } = describeAdminOperation(name);
    return [...records, ...digests].filter(isSecretField).map((field) => `${name}.${field}`);
  });
  expect(wrong).toEqual([]);
});

/** Operations that change no configuration: they show secrets, begin or end work, or the log-ins of operators. */
const withoutFields: readonly RegExp[] = [
  /^(?:Export|Start|Cancel|Run|Check|Retry|Redrive|Discard|ForceEmpty|Reshard|Abort|Get|Repair|Rewrap|Scrub|Fsck|Test)/,
  /^(?:LogIn|LogOut|RevokeLogins?|RevokeOwnLogin|CreateSessionCredentials)$/,
];

test('every operation that changes a configuration records which fields', () => {
  const without = adminOperationNames.filter((name) => {
    const { audited, records = [], digests = [] } = describeAdminOperation(name);
    return audited && records.length + digests.length === 0;
  });
  expect(without.filter((name) => !withoutFields.some((pattern) => pattern.test(name)))).toEqual([]);
});

test('each field that rows of the operator API record arrives in the audit row of an operation on the same noun', async () => {
  const settings = { ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first' };
  const logLevel: LogLevelControl = { get: () => 'INFO', set() {} };
  await using world = await openGateway({ settings, wrap: (context) => ({ ...context, logLevel }) });
  const { must } = operatorOf(world);
  const document = allow('s3:GetObject');
  const quota = { maxBytes: 10, maxObjects: 0, maxBytesPerObject: 0 };
  const quotas = { maxBuckets: 3, totalMaxBytes: 9 };
  const limit = { requestsPerSecond: 7, bytesPerSecond: 8, concurrentRequests: 9, burstSeconds: 2 };
  await must('POST', '/accounts', { account: 'shop', email: 'shop@example.com' });
  await must('POST', '/accounts/shop/mfa-devices', { name: 'phone' });
  await must('POST', '/accounts/shop/users', { name: 'ann' });
  await must('POST', '/accounts/shop/groups', { name: 'staff' });
  await must('PUT', '/accounts/shop/groups/staff/users/ann');
  await must('POST', '/accounts/shop/roles', { name: 'robot', trust: trusting({ AWS: 'shop' }) });
  const { arn: policy } = await must('POST', '/accounts/shop/policies', { name: 'reading', document });
  await must('POST', '/accounts/shop/attachments', { kind: 'user', name: 'ann', policy });
  await must('PUT', '/accounts/shop/users/ann/inline-policies/own', { document });
  await must('POST', '/accounts/shop/import', { records: [{ kind: 'users', name: 'ben' }] });
  await must('PUT', '/accounts/shop/limits', limit);
  await must('PUT', '/limits/anonymous', limit);
  await must('PUT', '/iam/users/shop/quota', quotas);
  await must('POST', '/iam/users/ann/access-keys', {
    account: 'shop',
    accessKey: 'ANNK',
    secretKey: 'a-secret',
  });
  await must('POST', '/buckets', { name: 'books', owner: 'shop', objectLock: true });
  await must('PUT', '/buckets/books/quota', quota);
  await must('PUT', '/buckets/books/limits', limit);
  await must('PUT', '/buckets/books/placement', { placement: { default: 1 } });
  await must('PUT', '/buckets/books/default-class', { defaultClass: 'STANDARD_IA' });
  await must('POST', '/buckets/books/signing-key/rotate');
  await must('PUT', '/buckets/books/configurations/tagging', { TagSet: [{ Key: 'a', Value: 'b' }] });
  await must('POST', '/buckets/books/access-points', { accessPoint: 'reports' });
  const reading = {
    ...JSON.parse(document).Statement[0],
    Principal: { AWS: 'shop' },
    Resource: 'arn:aws:s3:default:shop:accesspoint/reports/object/*',
  };
  const ofPoint = JSON.stringify({ Version: '2012-10-17', Statement: [reading] });
  await must('PUT', '/buckets/books/access-points/reports/policy', { document: ofPoint });
  await must('PUT', '/replication/peers/far', {
    ...{ endpoint: 'https://192.0.2.1:9', accessKey: 'peer-key', secretKey: 'peer-secret' },
    ...{ proxy: 'http://192.0.2.2:3128', bandwidth: 100_000, accounts: [{ account: 'shop' }] },
  });
  await must('PUT', '/clusters/default/weight', { weight: 9 });
  await must('POST', '/clusters/default/drain', { mode: 'readonly' });
  await must('POST', '/workers/gc/pause', {});
  await must('PUT', '/log-level', { level: 'DEBUG' });
  await must('PUT', '/quotas/defaults/bucket', quota);
  await must('PUT', '/quotas/defaults/account', quotas);
  const own = allow('iam:CreateAccessKey', 'iam:CreateVirtualMFADevice');
  const carol = world.as({ credential: (await openUser(world, 'carol', { policy: own })).credential });
  await carol.post('/admin/v1/session/access-keys');
  await carol.post('/admin/v1/session/mfa-devices', { body: '{"name":"phone"}' });

  const tags = new Map(
    adminOperationNames.map((name) => [`admin:${name}`, describeAdminOperation(name).tag]),
  );
  const arrived = new Set(
    (await auditRows(world.context)).flatMap(({ action, changes = [] }) =>
      changes.map(({ field }) => `${tags.get(action.split('/')[0] ?? '')} ${field.split('.')[0]}`),
    ),
  );
  const named = adminOperationNames.flatMap((name) => {
    const { tag, records = [], digests = [] } = describeAdminOperation(name);
    return [...records, ...digests].map((field) => `${tag} ${field}`);
  });
  expect([...new Set(named)].filter((each) => !arrived.has(each))).toEqual([]);
});

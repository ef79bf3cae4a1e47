/**
 * Attack group 17 of docs/security.md: a header that is given twice with different values. The signature and the operation read the
 * same text, the values joined by a comma (RFC 9110, 5.2), so that no reader obeys the first and another the last.
 */
import { describe, expect, test } from 'vitest';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';

interface Repeated {
  readonly name: string;
  /** The second value is the attacker's; sent alone, it has an effect. */
  readonly values: readonly [first: string, wanted: string];
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  readonly refused: readonly [status: number, code: string];
}

const repeated: readonly Repeated[] = [
  {
    name: 'x-amz-acl',
    values: ['private', 'public-read'],
    method: 'PUT',
    path: '/bucket/key',
    body: 'new',
    refused: [400, 'InvalidArgument'],
  },
  {
    name: 'x-amz-copy-source',
    values: ['/bucket/key', '/bucket/other'],
    method: 'PUT',
    path: '/bucket/copy',
    refused: [404, 'NoSuchKey'],
  },
  {
    name: 'x-amz-storage-class',
    values: ['STANDARD', 'GLACIER'],
    method: 'PUT',
    path: '/bucket/key',
    body: 'new',
    refused: [400, 'InvalidStorageClass'],
  },
  {
    name: 'x-amz-server-side-encryption',
    values: ['aws:kms', 'AES256'],
    method: 'PUT',
    path: '/bucket/key',
    body: 'new',
    refused: [400, 'InvalidArgument'],
  },
  {
    name: 'x-amz-expected-bucket-owner',
    values: ['bob-account', 'alice-account'],
    method: 'GET',
    path: '/bucket/key',
    refused: [403, 'AccessDenied'],
  },
  {
    name: 'if-match',
    values: ['"other"', '"another"'],
    method: 'PUT',
    path: '/bucket/key',
    body: 'new',
    refused: [412, 'PreconditionFailed'],
  },
];

const openWorld = async (): Promise<GatewayWorld> => {
  const world = await openGateway();
  await world.client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
  await world.client.put('/bucket/key', { body: 'content' });
  await world.client.put('/bucket/other', { body: 'other' });
  return world;
};

/** Both values, each on a line of its own, in a request that is signed with both. */
const twice = (world: GatewayWorld, { name, values, method, path, body }: Omit<Repeated, 'refused'>) =>
  world.client.send(method, path, {
    headers: values.map((value) => [name, value] as const),
    ...(body === undefined ? {} : { body }),
  });

describe.each(repeated)('a repeated $name', (header) => {
  test.each(['in one order', 'in the other'])(
    '%s is refused, and neither value has an effect',
    async (order) => {
      await using world = await openWorld();
      const [first, wanted] = header.values;
      const values = order === 'in one order' ? ([first, wanted] as const) : ([wanted, first] as const);
      const answer = await twice(world, { ...header, values });
      expect([answer.status, answer.code]).toEqual(header.refused);
      expect((await world.client.get('/bucket/key')).text).toBe('content');
      expect((await world.client.get('/bucket/copy')).status).toBe(404);
      expect((await world.anonymous.get('/bucket/key')).status).toBe(403);
    },
  );
});

test('one value of each of these headers has the effect that the repeated one has not', async () => {
  for (const { name, values, method, path, body } of repeated.filter((each) => each.name !== 'if-match')) {
    await using world = await openWorld();
    const headers = { [name]: values[1] };
    const answer = await world.client.send(method, path, {
      headers,
      ...(body === undefined ? {} : { body }),
    });
    expect([name, answer.status]).toEqual([name, 200]);
  }
});

test('a repeated x-amz-bypass-governance-retention bypasses nothing', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  const lock = {
    '*-object-lock-mode': 'GOVERNANCE',
    '*-object-lock-retain-until-date': '2099-01-01T00:00:00Z',
  };
  const version = (await client.put('/bucket/key', { body: 'held', headers: lock })).header('*-version-id');
  const path = `/bucket/key?versionId=${version}`;
  const name = 'x-amz-bypass-governance-retention';
  for (const values of [
    ['false', 'true'],
    ['true', 'false'],
  ] as const) {
    const answer = await twice(world, { name, values, method: 'DELETE', path });
    expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
  }
  expect((await client.get(path)).text).toBe('held');
  expect((await client.delete(path, { headers: { [name]: 'true' } })).status).toBe(204);
});

describe('a guard that a header could get around', () => {
  test('a policy condition on a repeated header gets the joined values, as the operation does', async () => {
    await using world = await openWorld();
    const statement = {
      Effect: 'Allow',
      Action: 's3:*',
      Resource: '*',
      Condition: { StringEquals: { 's3:x-amz-acl': ['private', 'bucket-owner-full-control'] } },
    };
    const policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
    const { credential } = await openUser(world, 'carol', { policy });
    const carol = world.as({ credential });
    const put = (...values: readonly string[]) =>
      carol.send('PUT', '/bucket/hers', {
        body: 'x',
        headers: values.map((value) => ['x-amz-acl', value] as const),
      });
    expect((await put('private')).status).toBe(200);
    for (const values of [
      ['private', 'public-read'],
      ['public-read', 'private'],
    ])
      expect((await put(...values)).status).toBe(403);
    expect((await world.anonymous.get('/bucket/hers')).status).toBe(403);
  });
});

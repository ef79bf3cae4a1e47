/** The ACLs that an anonymous writer may set on an object (public API "Access control list (ACL) overview"). */
import { describe, expect, test } from 'vitest';
import { everyone, grantsIn, ownershipXml } from '../support/access.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { encodeForm, fieldsOf, fileOf, multipart } from '../support/post-form.ts';

type Write = (world: GatewayWorld, headers: Readonly<Record<string, string>>) => Promise<Answer>;
const put: Write = ({ anonymous }, headers) => {
  const named = Object.entries(headers).map(([name, value]) => [`x-amz-${name}`, value]);
  return anonymous.put('/bucket/key', { body: 'x', headers: Object.fromEntries(named) });
};
const post: Write = ({ anonymous }, headers) => {
  const fields = Object.entries(headers).map(
    ([name, value]) => [name === 'acl' ? name : `x-amz-${name}`, value] as const,
  );
  const body = encodeForm([...fieldsOf({ key: 'key', ...Object.fromEntries(fields) }), fileOf('x')]);
  return anonymous.post('/bucket', { headers: multipart(), body });
};
const ways: readonly (readonly [string, Write])[] = [
  ['PutObject', put],
  ['PostObject', post],
];
const open = async () => {
  const world = await openGateway();
  await world.client.put('/bucket');
  return world;
};
const openToWriters = async () => {
  const world = await open();
  await world.client.put('/bucket?acl', { headers: { '*-acl': 'public-read-write' } });
  return world;
};
const statement = (Effect: string, Action: string) => ({
  Effect,
  Principal: '*',
  Action,
  Resource: 'arn:aws:s3:::bucket/*',
});
const setPolicy = (world: GatewayWorld, ...statements: readonly object[]) =>
  world.client.put('/bucket?policy', {
    body: JSON.stringify({ Version: '2012-10-17', Statement: statements }),
  });

describe.each(ways)('%s of an anonymous caller', (_, write) => {
  test('sets a canned ACL where the bucket’s ACL lets it write', async () => {
    await using world = await openToWriters();
    expect((await write(world, { acl: 'public-read' })).status).toBeLessThan(300);
    expect((await world.anonymous.get('/bucket/key')).text).toBe('x');
    const acl = await world.client.get('/bucket/key?acl');
    expect(acl.one('ID')).toBe('alice-account');
    expect(grantsIn(acl)).toContain(`${everyone} READ`);
  });

  test('sets no grants', async () => {
    await using world = await openToWriters();
    expect((await write(world, { 'grant-read': 'id="bob-account"' })).status).toBe(403);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });

  test('sets none where only a policy lets it write, unless the policy allows s3:PutObjectAcl', async () => {
    await using world = await open();
    await setPolicy(world, statement('Allow', 's3:PutObject'));
    expect((await write(world, { acl: 'public-read' })).status).toBe(403);
    expect((await write(world, {})).status).toBeLessThan(300);
    await setPolicy(world, statement('Allow', 's3:PutObject*'));
    expect((await write(world, { acl: 'public-read' })).status).toBeLessThan(300);
  });

  test('sets none where a policy denies s3:PutObjectAcl, or ACLs are turned off or blocked', async () => {
    await using world = await openToWriters();
    await setPolicy(world, statement('Deny', 's3:PutObjectAcl'));
    expect((await write(world, { acl: 'public-read' })).status).toBe(403);
    await world.client.delete('/bucket?policy');
    const block = (name: string) =>
      world.client.put('/bucket?publicAccessBlock', {
        body: `<PublicAccessBlockConfiguration><${name}>true</${name}></PublicAccessBlockConfiguration>`,
      });
    for (const name of ['BlockPublicAcls', 'IgnorePublicAcls']) {
      await block(name);
      expect((await write(world, { acl: 'public-read' })).status, name).toBe(403);
    }
    await world.client.delete('/bucket?publicAccessBlock');
    await world.client.put('/bucket?acl', { headers: { '*-acl': 'private' } });
    await world.client.put('/bucket?ownershipControls', { body: ownershipXml('BucketOwnerEnforced') });
    await setPolicy(world, statement('Allow', 's3:PutObject*'));
    expect((await write(world, { acl: 'public-read' })).status).toBe(400);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });
});

test('an anonymous caller changes no ACL of an object that is there', async () => {
  await using world = await openToWriters();
  await world.client.put('/bucket/key', { body: 'x' });
  const changed = await world.anonymous.put('/bucket/key?acl', { headers: { 'x-amz-acl': 'public-read' } });
  expect(changed.status).toBe(403);
  expect((await world.anonymous.get('/bucket/key')).status).toBe(403);
});

/** The lifecycle worker carries out what a bucket's rules say, to versions that are old enough and to no others. @storage */
import { describe, expect, test } from 'vitest';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { type Backend, backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const dayMs = 86_400_000;
interface World extends GatewayWorld {
  readonly clock: VirtualClock;
}
async function openWorld(backend: Backend): Promise<World> {
  const clock = virtualClock();
  // On a virtual clock a worker that waits for its rate waits forever.
  const settings = { SVC_LIFECYCLE_RATE: '1000000' };
  return Object.assign(await openGateway({ backend, clock, settings }), { clock });
}
const rule = (inside: string, { id = 'rule', filter = '<Filter/>' } = {}): string =>
  `<Rule><ID>${id}</ID><Status>Enabled</Status>${filter}${inside}</Rule>`;
const expireIn = (days: number) => `<Expiration><Days>${days}</Days></Expiration>`;
const noncurrentIn = (days: number, more = '') =>
  `<NoncurrentVersionExpiration><NoncurrentDays>${days}</NoncurrentDays>${more}</NoncurrentVersionExpiration>`;

async function configure(world: GatewayWorld, ...rules: readonly string[]): Promise<void> {
  const body = `<LifecycleConfiguration>${rules.join('')}</LifecycleConfiguration>`;
  const { status, text } = await world.client.put('/bucket?lifecycle', { body });
  expect(status, text).toBe(200);
}
async function enableVersioning({ client }: GatewayWorld): Promise<void> {
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await client.put('/bucket?versioning', { body });
}
async function pass({ context }: GatewayWorld): Promise<void> {
  const unit = carryOutLifecycles(context);
  while ((await unit(new AbortController().signal)) === 'busy');
}
const asOperator = (world: GatewayWorld) => world.as({ credential: operator });
const progress = async (world: GatewayWorld) =>
  JSON.parse((await asOperator(world).get('/admin/v1/buckets/bucket/lifecycle')).text);
const keys = async ({ client }: GatewayWorld) => (await client.get('/bucket?list-type=2')).all('Key');
const versions = async ({ client }: GatewayWorld) => {
  const reply = await client.get('/bucket?versions');
  return reply.all('Key').length;
};
const daysPass = async (world: World, days: number): Promise<void> => {
  world.clock.jump(days * dayMs);
  await pass(world);
};

describe.each(backends)('lifecycle: %s', (backend) => {
  test('an object expires at the midnight that its header names, and a younger one stays', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await configure(world, rule(expireIn(2)));
    await world.client.put('/bucket/old', { body: 'content' });
    await pass(world);
    world.clock.jump(dayMs);
    await world.client.put('/bucket/young', { body: 'content' });
    const header = (await world.client.head('/bucket/old')).header('*-expiration') ?? '';
    const due = Date.parse(/expiry-date="([^"]*)"/.exec(header)?.[1] ?? '');
    world.clock.jump(due - 1 - world.clock.now());
    await pass(world);
    expect(await keys(world)).toEqual(['old', 'young']);
    world.clock.jump(1);
    await pass(world);
    expect(await keys(world)).toEqual(['young']);
    expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
    expect(await progress(world)).toMatchObject({
      state: 'done',
      expired: 1,
      rules: { rule: { done: 1, backlog: 0 } },
    });
    await daysPass(world, 2);
    expect(await keys(world)).toEqual([]);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('objects that are older than the configuration, and than its index, expire', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    for (const key of ['a', 'b', 'c']) await world.client.put(`/bucket/${key}`, { body: key });
    await world.client.post('/bucket/upload?uploads');
    world.clock.jump(3 * dayMs);
    await world.client.put('/bucket/young', { body: 'young' });
    const abort =
      '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>';
    await configure(world, rule(expireIn(1) + abort));
    await pass(world);
    expect(await keys(world)).toEqual(['young']);
    expect((await world.client.get('/bucket?uploads')).all('Key')).toEqual([]);
    expect(await progress(world)).toMatchObject({ expired: 3, aborted: 1 });
  });

  test('with versioning an object gets a delete marker, its versions are removed later, and then the marker', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await enableVersioning(world);
    await configure(world, rule(expireIn(5), { id: 'current' }), rule(noncurrentIn(3), { id: 'noncurrent' }));
    await world.client.put('/bucket/key', { body: 'one' });
    await world.client.put('/bucket/key', { body: 'two' });
    await daysPass(world, 4);
    // The first version became noncurrent four days ago.
    expect(await versions(world)).toBe(1);
    await daysPass(world, 2);
    expect(await keys(world)).toEqual([]);
    expect((await world.client.get('/bucket?versions')).all('DeleteMarker').length).toBe(1);
    await daysPass(world, 4);
    expect((await world.client.get('/bucket?versions')).all('DeleteMarker').length).toBe(1);
    expect(await versions(world)).toBe(1);
    // Days of expiration hold for the delete marker too, once it is alone.
    await daysPass(world, 6);
    expect(await versions(world)).toBe(0);
  });

  test('the newest noncurrent versions that a rule keeps stay, however old they are', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await enableVersioning(world);
    for (let version = 0; version < 6; version += 1)
      await world.client.put('/bucket/key', { body: `${version}` });
    await configure(world, rule(noncurrentIn(1, '<NewerNoncurrentVersions>2</NewerNoncurrentVersions>')));
    await daysPass(world, 3);
    expect(await versions(world)).toBe(3);
    await daysPass(world, 3);
    expect(await versions(world)).toBe(3);
    expect((await world.client.get('/bucket/key')).text).toBe('5');
  });

  test('filters by prefix, tags and size choose the objects, and the index is read under the prefix alone', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    const tag = '<Tag><Key>keep</Key><Value>no</Value></Tag>';
    const filter = `<Filter><And><Prefix>logs/</Prefix>${tag}<ObjectSizeGreaterThan>3</ObjectSizeGreaterThan></And></Filter>`;
    await configure(world, rule(expireIn(1), { filter }));
    const headers = { '*-tagging': 'keep=no' };
    await world.client.put('/bucket/logs/due', { body: 'content', headers });
    await world.client.put('/bucket/logs/untagged', { body: 'content' });
    await world.client.put('/bucket/logs/small', { body: 'abc', headers });
    for (let n = 0; n < 20; n += 1)
      await world.client.put(`/bucket/other/${n}`, { body: 'content', headers });
    await daysPass(world, 2);
    expect((await keys(world)).length).toBe(22);
    expect(await progress(world)).toMatchObject({ expired: 1, read: 3 });
    // An object whose tags match later is found by a later pass.
    const tags = `<Tagging><TagSet>${tag}</TagSet></Tagging>`;
    await world.client.put('/bucket/logs/untagged?tagging', { body: tags });
    await daysPass(world, 1);
    expect((await keys(world)).length).toBe(21);
  });

  test('a transition changes the storage class and the usage of it, and the content stays', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    const move = '<Transition><Days>1</Days><StorageClass>STANDARD_IA</StorageClass></Transition>';
    const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
    await configure(world, rule(move, { filter: sizes }));
    await world.client.put('/bucket/key', { body: 'content' });
    await daysPass(world, 2);
    const reply = await world.client.get('/bucket/key');
    expect(reply.text).toBe('content');
    expect(reply.header('*-storage-class')).toBe('STANDARD_IA');
    expect(await progress(world)).toMatchObject({ transitioned: 1 });
    await daysPass(world, 2);
    expect(await progress(world)).toMatchObject({ transitioned: 0 });
    expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
  });

  test('with versioning a transition comes before the delete marker that is due on the same day', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await enableVersioning(world);
    const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
    const move = '<Transition><Days>1</Days><StorageClass>STANDARD_IA</StorageClass></Transition>';
    await configure(
      world,
      rule(move, { id: 'move', filter: sizes }),
      rule(expireIn(1), { id: 'expire', filter: sizes }),
    );
    await world.client.put('/bucket/key', { body: 'content' });
    await daysPass(world, 2);
    expect((await world.client.head('/bucket/key')).header('*-storage-class')).toBe('STANDARD_IA');
    await daysPass(world, 1);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
    const listed = await world.client.get('/bucket?versions');
    expect([listed.all('DeleteMarker').length, listed.all('StorageClass')]).toEqual([1, ['STANDARD_IA']]);
  });

  test('with suspended versioning a null version expires before a transition, because its marker replaces it', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await enableVersioning(world);
    const kept = await world.client.put('/bucket/kept', { body: 'content' });
    const body = '<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>';
    await world.client.put('/bucket?versioning', { body });
    await world.client.put('/bucket/null', { body: 'content' });
    const move = '<Transition><Days>1</Days><StorageClass>STANDARD_IA</StorageClass></Transition>';
    const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
    await configure(world, rule(move, { id: 'move', filter: sizes }), rule(expireIn(1), { id: 'expire' }));
    await daysPass(world, 3);
    expect(await progress(world)).toMatchObject({ expired: 1, transitioned: 1 });
    const listed = await world.client.get('/bucket?versions');
    expect(listed.all('Key')).toEqual(['kept', 'null']);
    expect(listed.all('VersionId')).toEqual([kept.header('*-version-id'), 'null']);
    expect(listed.all('StorageClass')).toEqual(['STANDARD_IA']);
  });

  test('with suspended versioning the delete marker replaces the null version behind a current version, which stays', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'null' });
    await enableVersioning(world);
    const { header } = await world.client.put('/bucket/key', { body: 'content' });
    const body = '<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>';
    await world.client.put('/bucket?versioning', { body });
    await configure(world, rule(expireIn(1)));
    await daysPass(world, 3);
    const listed = await world.client.get('/bucket?versions');
    expect(listed.all('VersionId')).toEqual(['null', header('*-version-id')]);
    expect(listed.all('DeleteMarker')).toHaveLength(1);
    await world.gc();
    expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
    expect(await world.stored()).toHaveLength(1);
  });

  test('a version that becomes current again expires by the time when it was written', async () => {
    await using world = await openWorld(backend);
    const { client } = world;
    await client.put('/bucket');
    await enableVersioning(world);
    await configure(world, rule(expireIn(30)));
    for (const key of ['deleted', 'replaced']) await client.put(`/bucket/${key}`, { body: 'old' });
    await daysPass(world, 1);
    const marker = (await client.delete('/bucket/deleted')).header('*-version-id');
    const newer = (await client.put('/bucket/replaced', { body: 'new' })).header('*-version-id');
    await daysPass(world, 9);
    expect((await client.delete(`/bucket/deleted?versionId=${marker}`)).status).toBe(204);
    expect((await client.delete(`/bucket/replaced?versionId=${newer}`)).status).toBe(204);
    await daysPass(world, 10);
    expect(await keys(world)).toEqual(['deleted', 'replaced']);
    await daysPass(world, 12);
    expect(await keys(world)).toEqual([]);
  });

  test('a delete marker that becomes current again, and is alone, is removed', async () => {
    await using world = await openWorld(backend);
    const { client } = world;
    await client.put('/bucket');
    await enableVersioning(world);
    await configure(
      world,
      rule('<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>'),
    );
    const versionIds = [(await client.put('/bucket/key', { body: 'one' })).header('*-version-id')];
    await client.delete('/bucket/key');
    versionIds.push((await client.put('/bucket/key', { body: 'two' })).header('*-version-id'));
    await daysPass(world, 10);
    for (const id of versionIds.toReversed()) await client.delete(`/bucket/key?versionId=${id}`);
    await daysPass(world, 1);
    expect((await client.get('/bucket?versions')).all('DeleteMarker')).toEqual([]);
  });

  test('a dry run names each object and its rule, and changes nothing', async () => {
    await using world = await openWorld(backend);
    await world.client.put('/bucket');
    await configure(world, rule(expireIn(1), { id: 'logs' }));
    await world.client.put('/bucket/key', { body: 'content' });
    await pass(world);
    world.clock.jump(2 * dayMs);
    const path = '/admin/v1/buckets/bucket/lifecycle/run';
    const reply = await asOperator(world).post(`${path}?dry-run`);
    expect(JSON.parse(reply.text)).toEqual({
      actions: [{ action: 'expire', rule: 'logs', key: 'key', versionId: 'null' }],
      isComplete: true,
    });
    expect(await keys(world)).toEqual(['key']);
    expect((await asOperator(world).post(path)).status).toBe(202);
    expect(await progress(world)).toMatchObject({
      state: 'waiting',
      backlog: 1,
      rules: { logs: { done: 0, backlog: 1, oldestDueDay: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) } },
    });
    await pass(world);
    expect(await keys(world)).toEqual([]);
  });
});

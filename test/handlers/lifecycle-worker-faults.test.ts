/** The lifecycle worker beside clients, locks, changes of the rules, kills and deleted buckets. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import type { LifecycleProgress } from '../../src/domain/lifecycle/progress.ts';
import { findLiveHead, objectsAt } from '../../src/metadata/objects/objects.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { ambush } from '../support/ambush.ts';
import { extentsOn, openClusters, operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { type GatewayWorld, type GatewayWorldOptions, openGateway, operator } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { heldUntil, openLocked, putVersion } from '../support/locks.ts';
import { auditRows, eventsOf } from '../support/recorded.ts';
import { sendObject, versionAt, written } from '../support/replicas.ts';
import { awaitDefaultPeer, defaultRole } from '../support/replication-role.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const dayMs = 86_400_000;
const never = new AbortController().signal;
const rule = (inside: string, filter = '<Filter/>'): string =>
  `<Rule><ID>rule</ID><Status>Enabled</Status>${filter}${inside}</Rule>`;
const expireIn = (days: number) => `<Expiration><Days>${days}</Days></Expiration>`;
const moveIn = (days: number, to: string) =>
  `<Transition><Days>${days}</Days><StorageClass>${to}</StorageClass></Transition>`;
const noncurrentMoveIn = (days: number, to: string) =>
  `<NoncurrentVersionTransition><NoncurrentDays>${days}</NoncurrentDays><StorageClass>${to}</StorageClass></NoncurrentVersionTransition>`;
/** Without a filter by size, small objects are not moved. */
const anySize = '<Filter><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan></Filter>';

async function configure({ client }: GatewayWorld, inside: string, bucket = 'bucket'): Promise<void> {
  const body = `<LifecycleConfiguration>${inside}</LifecycleConfiguration>`;
  expect((await client.put(`/${bucket}?lifecycle`, { body })).status).toBe(200);
}
async function pass(context: Context): Promise<void> {
  const unit = carryOutLifecycles(context);
  while ((await unit(never)) === 'busy');
}
async function openWorld(
  options: GatewayWorldOptions = {},
): Promise<GatewayWorld & { readonly clock: VirtualClock }> {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  // On a virtual clock a worker that waits for its rate waits forever.
  const settings = { SVC_LIFECYCLE_RATE: '1000000', ...options.settings };
  return Object.assign(await openGateway({ ...options, settings, clock }), { clock });
}
/** Runs a pass, and stops it like a gateway that ends once its stored progress is so far. */
async function passUntil(context: Context, isFar: (progress: LifecycleProgress) => boolean): Promise<void> {
  const stop = new AbortController();
  const metadata = faulty(context.metadata, {
    async commit(at, changes, options) {
      const outcome = await context.metadata.commit(at, changes, options);
      for (const each of at.table.name === 'tasks' ? changes : []) {
        const { state } = 'put' in each ? (each.put as unknown as { readonly state: LifecycleProgress }) : {};
        if (state !== undefined && 'tally' in state && isFar(state)) stop.abort();
      }
      return outcome;
    },
  });
  const unit = carryOutLifecycles({ ...context, metadata });
  while ((await unit(stop.signal)) === 'busy');
}
/** A gateway whose object `/bucket/key` is due. */
async function openDue(): Promise<GatewayWorld> {
  const world = await openWorld();
  await world.client.put('/bucket');
  await configure(world, rule(expireIn(1)));
  await world.client.put('/bucket/key', { body: 'old' });
  await pass(world.context);
  world.clock.jump(2 * dayMs);
  return world;
}
const progress = async (world: GatewayWorld, bucket = 'bucket') =>
  JSON.parse((await world.as({ credential: operator }).get(`/admin/v1/buckets/${bucket}/lifecycle`)).text);

test('versions under Object Lock stay until their retention ends, and are counted as held', async () => {
  await using world = await openLocked();
  const noncurrent =
    '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>';
  await configure(world, rule(noncurrent));
  await putVersion(world.client, '/bucket/key', heldUntil('COMPLIANCE', world.inDays(10)));
  await putVersion(world.client, '/bucket/key');
  world.clock.jump(3 * dayMs);
  await pass(world.context);
  expect((await world.client.get('/bucket?versions')).all('VersionId')).toHaveLength(2);
  expect(await progress(world)).toMatchObject({ held: 1, noncurrent: 0 });
  world.clock.jump(9 * dayMs);
  await pass(world.context);
  expect((await world.client.get('/bucket?versions')).all('VersionId')).toHaveLength(1);
});

test('a version whose replication is pending waits until that has ended', async () => {
  await using world = await openWorld();
  const { client, clock, context } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  await awaitDefaultPeer(world);
  const destination = '<Destination><Bucket>arn:aws:s3:::replica</Bucket></Destination>';
  const replicate = `<Rule><ID>r</ID><Prefix>sent/</Prefix><Status>Enabled</Status>${destination}</Rule>`;
  const body = `<ReplicationConfiguration><Role>${defaultRole}</Role>${replicate}</ReplicationConfiguration>`;
  expect((await client.put('/bucket?replication', { body })).status).toBe(200);
  await configure(world, rule(expireIn(1)));
  for (const key of ['sent/key', 'other']) await client.put(`/bucket/${key}`, { body: 'content' });
  clock.jump(2 * dayMs);
  await pass(context);
  const live = async () => (await client.get('/bucket?list-type=2')).all('Key');
  expect(await live()).toEqual(['sent/key']);
  expect(await progress(world)).toMatchObject({ expired: 1, undone: 1 });
  const bucket = await openBucket(context, 'bucket');
  const { row, revision } = (await findLiveHead(context.metadata, bucket, 'sent/key')) ?? {};
  if (row === undefined || revision === undefined) throw new Error('the version is missing');
  const put = { ...row, replication: 'COMPLETED' as const };
  await context.metadata.commit(objectsAt(bucket), [{ put, expect: revision }]);
  await pass(context);
  expect(await live()).toEqual(['sent/key']);
  // The pass after ten minutes.
  clock.jump(11 * 60_000);
  await pass(context);
  expect(await live()).toEqual([]);
});

test('an object that a client writes again just before the commit is not deleted', async () => {
  await using world = await openDue();
  const { client } = world;
  const { rightBefore, wrap } = ambush();
  rightBefore('objects', () => client.put('/bucket/key', { body: 'new' }));
  await pass(wrap(world.context));
  expect((await client.get('/bucket/key')).text).toBe('new');
});

test('rules that are replaced just before the commit delete nothing', async () => {
  await using world = await openDue();
  const { client } = world;
  const { rightBefore, wrap } = ambush();
  rightBefore('objects', () => configure(world, rule(expireIn(30))));
  await pass(wrap(world.context));
  await pass(world.context);
  expect((await client.get('/bucket/key')).text).toBe('old');
});

test.each([
  { becomes: 'current', rules: noncurrentMoveIn(1, 'GLACIER_IR') },
  { becomes: 'noncurrent', rules: moveIn(1, 'GLACIER_IR') },
])(
  'a version that becomes $becomes just before the commit of its transition stays in its class',
  async ({ becomes, rules }) => {
    await using world = await openWorld();
    const { client, clock } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    await configure(world, rule(rules, anySize));
    const version = await putVersion(client, '/bucket/key');
    const marker = becomes === 'current' ? (await client.delete('/bucket/key')).header('*-version-id') : '';
    clock.jump(3 * dayMs);
    const { rightBefore, wrap } = ambush();
    rightBefore('objects', () =>
      becomes === 'current'
        ? client.delete(`/bucket/key?versionId=${marker}`)
        : client.put('/bucket/key', { body: 'new' }),
    );
    await pass(wrap(world.context));
    const { status, header } = await client.head(`/bucket/key?versionId=${version}`);
    expect([status, header('*-storage-class')]).toEqual([200, undefined]);
  },
);

test('a transition moves the bytes to the cluster of the class, and the old bytes are deleted', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const classes = 'default@hot,GLACIER_IR@cold';
  const { world: opened } = await openClusters('hot,cold', {
    clock,
    settings: { SVC_STORAGE_CLASSES: classes },
  });
  await using world = opened;
  const { client } = world;
  await client.put('/bucket');
  const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
  await configure(world, rule(moveIn(1, 'GLACIER_IR'), sizes));
  await client.put('/bucket/key', { body: 'content' });
  clock.jump(2 * dayMs);
  await pass(world.context);
  await world.gc();
  expect((await client.get('/bucket/key')).text).toBe('content');
  expect((await client.head('/bucket/key')).header('*-storage-class')).toBe('GLACIER_IR');
  const bucket = await openBucket(world.context, 'bucket');
  const { manifest } = (await findLiveHead(world.context.metadata, bucket, 'key'))?.row ?? {};
  expect(manifest).toMatchObject({ extents: [{ cluster: 'cold' }] });
  expect(await world.stored()).toHaveLength(1);
});

test.each([
  ['the rules are removed', ({ client }: GatewayWorld) => client.delete('/bucket?lifecycle')],
  [
    'its tags change',
    ({ client }: GatewayWorld) =>
      client.put('/bucket/key?tagging', {
        body: '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>',
      }),
  ],
])(
  'the bytes of a version stay where they are when %s while its transition copies them',
  async (_, change) => {
    const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
    const settings = { SVC_STORAGE_CLASSES: 'default@hot,GLACIER_IR@cold', SVC_LIFECYCLE_RATE: '1000000' };
    const { world: opened } = await openClusters('hot,cold', { clock, settings });
    await using world = opened;
    const { client, context } = world;
    await client.put('/bucket');
    await configure(world, rule(moveIn(1, 'GLACIER_IR'), anySize));
    await client.put('/bucket/key', { body: 'content' });
    await pass(context);
    clock.jump(2 * dayMs);
    let isChanged = false;
    const write: Context['bytes']['write'] = async (...call) => {
      const written = await context.bytes.write(...call);
      if (!isChanged) expect((await change(world)).status).toBeLessThan(300);
      isChanged = true;
      return written;
    };
    const unit = carryOutLifecycles({ ...context, bytes: faulty(context.bytes, { write }) });
    await unit(never);
    await unit.end?.();
    expect(isChanged).toBe(true);
    await world.gc();
    expect((await client.head('/bucket/key')).header('*-storage-class')).toBeUndefined();
    expect([await extentsOn(world, 'hot'), await extentsOn(world, 'cold')]).toEqual([1, 0]);
  },
);

test('a version whose transition cannot be done gets its delete marker on the day of its expiration', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const { world: opened, admin } = await openClusters('hot,cold', {
    clock,
    settings: { SVC_STORAGE_CLASSES: 'default@hot,GLACIER_IR@cold', SVC_LIFECYCLE_RATE: '1000000' },
  });
  await using world = opened;
  const { client, context } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  await configure(world, rule(`${moveIn(10, 'GLACIER_IR')}${expireIn(20)}`, anySize));
  await client.put('/bucket/key', { body: 'content' });
  await admin.must('POST', '/clusters/cold/drain', { mode: 'evacuate' });
  clock.jump(11 * dayMs);
  await pass(context);
  expect((await client.get('/bucket/key')).text).toBe('content');
  expect(await progress(world)).toMatchObject({ undone: 1, expired: 0 });
  clock.jump(10 * dayMs);
  await pass(context);
  expect((await client.get('/bucket/key')).status).toBe(404);
  expect(await progress(world)).toMatchObject({ undone: 0, expired: 1 });
  expect((await client.get('/bucket?versions')).all('VersionId')).toHaveLength(2);
});

test('a pass that is killed at any step is finished by the next leader, and deletes nothing twice', async () => {
  await using world = await openWorld();
  const { client, clock } = world;
  await client.put('/bucket');
  await configure(world, rule(expireIn(1)));
  for (let n = 0; n < 12; n += 1) await client.put(`/bucket/${n}`, { body: `${n}` });
  clock.jump(2 * dayMs);
  for (let calls = 1; ; calls += 3) {
    let left = calls;
    const metadata = new Proxy(world.context.metadata, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (name !== 'commit' && name !== 'apply')
          return typeof value === 'function' ? value.bind(target) : value;
        return (...args: unknown[]) => {
          if (left-- <= 0) throw new Error('killed');
          return value.apply(target, args);
        };
      },
    });
    const outcome = await pass({ ...world.context, metadata }).catch((cause: unknown) => cause);
    if (outcome === undefined) break;
    expect(calls).toBeLessThan(200);
  }
  expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([]);
  expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
  const unread = await progress(world);
  expect(unread).toMatchObject({ state: 'done', backlog: 0 });
});

test('the index of versions from before the first configuration continues after each kill where it was', async () => {
  await using world = await openWorld();
  const { client, clock, context } = world;
  await client.put('/bucket');
  const objects = 1_600;
  for (let n = 0; n < objects; n += 1) await client.put(`/bucket/${n}`, { body: '' });
  await client.post('/bucket/upload?uploads');
  clock.jump(2 * dayMs);
  const abort =
    '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>';
  await configure(world, rule(expireIn(1) + abort));
  let indexed = 0;
  let kills = 0;
  for (;;) {
    let pages = 0;
    const apply: typeof context.metadata.apply = async (changes) => {
      const added = changes.filter((each) => each.at.table.name === 'ages' && 'put' in each);
      if (added.length > 0 && pages++ > 0) throw new Error('killed');
      indexed += added.length;
      return context.metadata.apply(changes);
    };
    const metadata = faulty(context.metadata, { apply });
    const outcome = await pass({ ...context, metadata }).catch((cause: unknown) => cause);
    if (outcome === undefined) break;
    kills += 1;
    expect((await progress(world)).state).toBe('indexing');
    expect(kills).toBeLessThan(10);
  }
  expect([kills >= 3, indexed]).toEqual([true, objects + 1]);
  expect(await progress(world)).toMatchObject({ expired: objects, aborted: 1, read: objects + 1 });
  expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([]);
});

test('a bucket that is deleted and made again under the worker keeps its objects', async () => {
  await using world = await openWorld();
  const { client, clock } = world;
  await client.put('/bucket');
  await configure(world, rule(expireIn(1)));
  await client.put('/bucket/key', { body: 'old' });
  await pass(world.context);
  await client.delete('/bucket/key');
  await client.delete('/bucket');
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'new' });
  clock.jump(3 * dayMs);
  await pass(world.context);
  expect((await client.get('/bucket/key')).text).toBe('new');
});

test('the pass of a bucket that was deleted leaves the list of tasks, a cut one too', async () => {
  await using world = await openWorld();
  const { client, clock, context } = world;
  const admin = operatorOf(world);
  for (const bucket of ['ended', 'cut']) {
    await client.put(`/${bucket}`);
    await configure(world, rule(expireIn(1)), bucket);
  }
  await pass(context);
  clock.jump(3 * dayMs);
  await client.put('/cut/key', { body: 'content' });
  await passUntil(context, ({ bucket, finishedAt }) => bucket === 'cut' && finishedAt === undefined);
  await client.delete('/cut/key');
  for (const bucket of ['ended', 'cut']) await client.delete(`/${bucket}`);
  expect((await admin.must('GET', '/tasks?kind=lifecycle'))['tasks']).toHaveLength(2);
  clock.jump(3 * dayMs);
  await pass(context);
  expect((await admin.must('GET', '/tasks?kind=lifecycle'))['tasks']).toEqual([]);
});

test('a gateway whose clock is days ahead of the store deletes nothing early, and one that is behind waits for its own clock', async () => {
  await using world = await openWorld();
  const { client, clock, context } = world;
  await client.put('/bucket');
  await configure(world, rule(expireIn(1)));
  await client.put('/bucket/key', { body: 'content' });
  await pass(context);
  const shifted = (ms: number): Context => ({
    ...context,
    clock: { ...clock, now: () => clock.now() + ms, sleep: clock.sleep, elapsed: clock.elapsed },
  });
  await pass(shifted(5 * dayMs));
  expect((await client.get('/bucket/key')).text).toBe('content');
  clock.jump(2 * dayMs);
  await pass(shifted(-5 * dayMs));
  expect((await client.get('/bucket/key')).text).toBe('content');
  await pass(context);
  expect((await client.get('/bucket/key')).status).toBe(404);
});

test('a bucket with much work lets the others have their turns', async () => {
  await using world = await openWorld({ settings: { SVC_LIFECYCLE_RATE: '1000000' } });
  const { client, clock } = world;
  for (const bucket of ['large', 'small']) {
    await client.put(`/${bucket}`);
    await configure(world, rule(expireIn(1)), bucket);
  }
  for (let n = 0; n < 1_500; n += 1) await client.put(`/large/${n}`, { body: '' });
  await client.put('/small/key', { body: '' });
  await pass(world.context);
  clock.jump(2 * dayMs);
  let largeWhenSmallWasDone: number | undefined;
  const deletions = { large: 0 };
  const metadata = new Proxy(world.context.metadata, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (name !== 'commit') return typeof value === 'function' ? value.bind(target) : value;
      return (at: { table: { name: string } }, changes: readonly object[], ...rest: unknown[]) => {
        if (at.table.name === 'objects') {
          const text = JSON.stringify(changes);
          if (text.includes('"key":"key"')) largeWhenSmallWasDone ??= deletions.large;
          else deletions.large += 1;
        }
        return value.call(target, at, changes, ...rest);
      };
    },
  });
  await pass({ ...world.context, metadata });
  expect(deletions.large).toBeGreaterThanOrEqual(1_500);
  expect(largeWhenSmallWasDone).toBeLessThanOrEqual(1_000);
});

test.each([
  ['slow', { copyMs: 6_000, bytes: 7 }],
  ['large', { copyMs: 0, bytes: 1024 ** 3 }],
] as const)(
  'a bucket with %s transitions lets the others have their turns, and loses none of them',
  async (_name, { copyMs, bytes }) => {
    const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
    const settings = { SVC_STORAGE_CLASSES: 'default@hot,GLACIER_IR@cold', SVC_LIFECYCLE_RATE: '1000000' };
    const { world: opened } = await openClusters('hot,cold', { clock, settings });
    await using world = opened;
    const { client, context } = world;
    const count = 140;
    for (const bucket of ['large', 'small']) await client.put(`/${bucket}`);
    const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
    await configure(world, rule(moveIn(1, 'GLACIER_IR'), sizes), 'large');
    await configure(world, rule(expireIn(1)), 'small');
    for (let n = 0; n < count; n += 1) await client.put(`/large/${n}`, { body: 'content' });
    await client.put('/small/key', { body: '' });
    await pass(context);
    clock.jump(2 * dayMs);
    let moved = 0;
    let movedBefore: number | undefined;
    const large = await openBucket(context, 'large');
    const inLarge = (row: unknown) => (row as { bucketId?: string }).bucketId === large.id;
    const metadata = faulty(context.metadata, {
      async commit(at, changes, options) {
        if (at.table.name === 'objects' && inLarge(at.in)) {
          await clock.advance(copyMs);
          if (JSON.stringify(changes).includes('GLACIER_IR')) moved += 1;
        } else if (at.table.name === 'objects') movedBefore ??= moved;
        return context.metadata.commit(at, changes, options);
      },
      async get(at, sort) {
        const found = await context.metadata.get(at, sort);
        // As if the versions were large.
        if (found === undefined || at.table.name !== 'objects' || !inLarge(at.in)) return found;
        return { ...found, row: { ...found.row, size: bytes } } as never;
      },
    });
    await pass({ ...context, metadata });
    expect(movedBefore).toBeLessThan(count);
    for (let n = 0; n < count; n += 1)
      expect((await client.head(`/large/${n}`)).header('*-storage-class'), `${n}`).toBe('GLACIER_IR');
    expect((await client.get('/small/key')).status).toBe(404);
    expect(await progress(world, 'large')).toMatchObject({ state: 'done', transitioned: count });
  },
);

test('a pass that runs tells for the bucket and for each rule what is done, what is left, its rate and its end', async () => {
  await using world = await openWorld();
  const { client, clock, context } = world;
  await client.put('/bucket');
  const under = (prefix: string) => `<Filter><Prefix>${prefix}</Prefix></Filter>`;
  const named = (id: string): string =>
    rule(expireIn(1), under(`${id}/`)).replace('<ID>rule</ID>', `<ID>${id}</ID>`);
  await configure(world, named('a') + named('b') + named('none'));
  await pass(context);
  for (const prefix of ['a', 'b'])
    for (let n = 0; n < 1_100; n += 1) await client.put(`/bucket/${prefix}/${n}`, { body: '' });
  const day = new Date(clock.now()).toISOString().slice(0, 10);
  clock.jump(2 * dayMs);
  await passUntil(context, ({ tally }) => tally.read > 0);
  clock.jump(1_000);
  const shown = await progress(world);
  const { a, b } = shown.rules;
  expect(shown.expired).toBeGreaterThan(0);
  expect(shown.backlog).toBe(2_200 - shown.expired);
  expect([a.done + b.done, a.backlog + b.backlog]).toEqual([shown.expired, shown.backlog]);
  expect(shown).toMatchObject({ state: 'running', oldestDueDay: day, perSecond: shown.read });
  expect(b).toMatchObject({ oldestDueDay: day, perSecond: b.done });
  // The pass reads one prefix after the other, and the last entry of one rule is the last one of all.
  expect([a, b].map(({ etaSeconds }) => etaSeconds)).toContain(shown.etaSeconds);
  expect(shown.rules.none).toBeUndefined();
});

test('expirations queue their events, and the audit log counts them', async () => {
  await using world = await openWorld({
    settings: {
      SVC_NOTIFY_TARGETS: JSON.stringify([
        { id: 'sink', accounts: ['*'], type: 'webhook', url: 'https://sink.example/' },
      ]),
    },
  });
  const { client, clock } = world;
  await client.put('/bucket');
  await configure(world, rule(expireIn(1)));
  const queue = `<QueueConfiguration><Queue>arn:aws:sqs:us-east-1:1:sink</Queue><Event>s3:LifecycleExpiration:*</Event></QueueConfiguration>`;
  const notification = `<NotificationConfiguration>${queue}</NotificationConfiguration>`;
  expect((await client.put('/bucket?notification', { body: notification })).status).toBe(200);
  for (const key of ['a', 'b']) await client.put(`/bucket/${key}`, { body: key });
  clock.jump(2 * dayMs);
  await pass(world.context);
  const names = (await eventsOf(world.context))
    .filter(({ eventName }) => eventName !== undefined)
    .map(({ eventName, s3 }) => `${eventName} ${s3.object.key}`);
  expect(names.sort()).toEqual(['LifecycleExpiration:Delete a', 'LifecycleExpiration:Delete b']);
  const rows = (await auditRows(world.context)).filter(({ action }) => action === 'worker:Lifecycle');
  expect(rows).toMatchObject([{ resource: 'bucket:bucket', count: 2 }]);
});

test('a pass reads the entries that are old enough, and hardly any others', async () => {
  await using world = await openWorld();
  const { client, clock } = world;
  await client.put('/bucket');
  await configure(world, rule(expireIn(30)));
  await pass(world.context);
  for (let day = 0; day < 40; day += 1) {
    for (let n = 0; n < 5; n += 1) await client.put(`/bucket/${day}-${n}`, { body: 'x' });
    clock.jump(dayMs);
  }
  await pass(world.context);
  // Days 0 to 9 are older than 30 days at the last midnight.
  const { read, expired } = await progress(world);
  expect((await client.get('/bucket?list-type=2')).all('Key')).toHaveLength(200 - expired);
  expect(read).toBeLessThanOrEqual(1.05 * expired);
  expect(expired).toBeGreaterThan(40);
});

test('versions that are older than their commit begin one further pass, however many they are, and none is missed', async () => {
  await using world = await openWorld();
  const { client, clock, context } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  await configure(world, rule(expireIn(5)));
  await pass(context);
  const keys = Array.from({ length: 1_500 }, (_, n) => `${String(n).padStart(4, '0')}`);
  for (const key of keys) await client.put(`/bucket/${key}`, { body: 'x' });
  clock.jump(7 * dayMs);
  // Replicas of old versions come while the pass runs, one with each of its commits.
  let sent = 0;
  const arriving = faulty(context.metadata, {
    async commit(at, changes, options) {
      const outcome = await context.metadata.commit(at, changes, options);
      if (at.table.name === 'tasks' && sent < 100) {
        sent += 1;
        const modified = clock.now() - 6 * dayMs;
        const document = written('y', { version: versionAt(modified, `${sent}`), modified });
        // Sorts before the keys that the pass is at.
        expect((await sendObject(client, `/bucket/-${sent}`, document, 'y')).status).toBe(200);
      }
      return outcome;
    },
  });
  const unit = carryOutLifecycles({ ...context, metadata: arriving });
  let units = 0;
  while ((await unit(never)) === 'busy') {
    units += 1;
    expect(units).toBeLessThan(50);
  }
  // The pass has ended although versions came with each of its steps.
  expect(sent).toBeGreaterThan(2);
  expect(sent).toBeLessThan(20);
  const live = async () => (await client.get('/bucket?list-type=2&prefix=0')).all('Key').length;
  expect(await live()).toBe(0);
  const { read } = await progress(world);
  expect(read).toBeLessThanOrEqual(1.05 * keys.length);
  clock.jump(11 * 60_000);
  await pass(context);
  expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([]);
});

/** The events `s3:Replication:*`, and what a replicator that was stopped in the middle leaves at its peer. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { beginBounds, boundQueues } from '../../src/domain/event-deliveries/queue-retention.ts';
import { LateVersions } from '../../src/domain/replication/store-status.ts';
import { hourlyQueues } from '../../src/metadata/records/queues.ts';
import { RowTooLong, type SideChange } from '../../src/ports/metadata-store.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';
import { hurriedClock } from '../support/notify-world.ts';
import { eventsOf } from '../support/recorded.ts';
import {
  drained,
  link,
  never,
  openSite,
  refusal,
  run,
  type Site,
  settings,
  settled,
  until,
} from '../support/replication-sites.ts';

const targets = JSON.stringify([
  { id: 'hook', accounts: ['*'], type: 'webhook', url: 'http://127.0.0.1:1/' },
]);

async function openLinked(more: Readonly<Record<string, string>> = {}) {
  const clock = hurriedClock();
  const near = await openSite({ clock, settings: { ...settings, SVC_NOTIFY_TARGETS: targets, ...more } });
  const far = await openSite({ clock });
  const metrics =
    '<ReplicationTime><Status>Enabled</Status><Time><Minutes>15</Minutes></Time></ReplicationTime><Metrics><Status>Enabled</Status><EventThreshold><Minutes>15</Minutes></EventThreshold></Metrics>';
  await link(near, far, { destination: metrics });
  const body = `<NotificationConfiguration><QueueConfiguration><Event>s3:Replication:*</Event>
    <Queue>arn:aws:sqs:default:123456789012:hook</Queue></QueueConfiguration></NotificationConfiguration>`;
  expect((await near.world.client.put('/bucket?notification', { body })).status).toBe(200);
  return { clock, near, far };
}

const events = async ({ world: { context } }: Site) =>
  (await eventsOf(context)).map((record) => {
    const {
      eventName,
      s3,
      replicationEventData: about,
      ...others
    } = record as typeof record & {
      readonly replicationEventData: Readonly<Record<string, unknown>>;
    };
    return { event: eventName, key: s3.object.key, about, others };
  });

test('a version that is given up has the event OperationFailedReplication with the reason', async () => {
  const { near, far } = await openLinked();
  far.instead = (method, target) =>
    method === 'PUT' && target.includes('/bad?') ? refusal(400, 'InvalidArgument') : undefined;
  run(near);
  for (const key of ['bad', 'good']) await near.world.client.put(`/bucket/${key}`, { body: 'x' });
  await settled(near, '/bucket/bad', 'FAILED');
  await settled(near, '/bucket/good', 'COMPLETED');
  expect(await events(near)).toMatchObject([
    {
      event: 'Replication:OperationFailedReplication',
      key: 'bad',
      about: {
        replicationRuleId: 'r',
        destinationBucket: 'arn:sluice:replication::far:bucket',
        s3Operation: 'OBJECT_PUT',
        requestTime: expect.stringMatching(/Z$/),
        failureReason: 'refused',
      },
      others: {
        userIdentity: { principalId: 's3.amazonaws.com' },
        requestParameters: { sourceIPAddress: 's3.amazonaws.com' },
      },
    },
  ]);
});

test('a version that waits for longer than its rule allows has OperationMissedThreshold once, and OperationReplicatedAfterThreshold when it arrives', async () => {
  const { clock, near, far } = await openLinked();
  far.instead = () => refusal(503, 'SlowDown');
  run(near);
  await near.world.client.put('/bucket/late', { body: 'x' });
  clock.hurry(14 * 60_000);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await events(near)).toEqual([]);
  clock.hurry(2 * 60_000);
  const missed = { event: 'Replication:OperationMissedThreshold', key: 'late' };
  await vi.waitFor(async () => expect(await events(near)).toMatchObject([missed]), until);
  clock.hurry(2 * 60_000);
  await new Promise((resolve) => setTimeout(resolve, 100));
  far.instead = undefined;
  clock.hurry(60_000);
  await settled(near, '/bucket/late', 'COMPLETED');
  await near.world.client.put('/bucket/in-time', { body: 'x' });
  await settled(near, '/bucket/in-time', 'COMPLETED');
  expect(await events(near)).toMatchObject([
    missed,
    { event: 'Replication:OperationReplicatedAfterThreshold', key: 'late' },
  ]);
});

test.each([
  { puts: 1, ends: 1 },
  { puts: 0, ends: 1 },
  { puts: 1, ends: 0 },
])(
  'a version whose late events cannot be stored at first has each of them once: failures %o',
  async (failures) => {
    const { clock, near } = await openLinked();
    const { client, context } = near.world;
    await client.put('/bucket/late', { body: 'x' });
    clock.hurry(16 * 60_000);
    // The first look for late versions cannot store its event, and the first end of the task cannot be stored.
    const { metadata } = context;
    const left = { ...failures };
    const isOfQueue = ({ at }: SideChange): boolean => at.table === hourlyQueues;
    const apply: typeof metadata.apply = async (changes) => {
      if (left.puts > 0 && changes.some((change) => isOfQueue(change) && 'put' in change)) {
        left.puts -= 1;
        throw new Error('the event cannot be stored');
      }
      return metadata.apply(changes);
    };
    const commit: typeof metadata.commit = async (at, changes, options) => {
      if (left.ends > 0 && options?.then?.some((change) => isOfQueue(change) && 'remove' in change)) {
        left.ends -= 1;
        throw new Error('the end cannot be stored');
      }
      return metadata.commit(at, changes, options);
    };
    const faulty = Object.create(metadata, { apply: { value: apply }, commit: { value: commit } });
    const running = startWorkers({ ...context, metadata: faulty }, ['replicator'], never);
    onTestFinished(() => running.stop());
    await settled(near, '/bucket/late', 'COMPLETED');
    expect(left).toEqual({ puts: 0, ends: 0 });
    expect(await events(near)).toMatchObject([
      { event: 'Replication:OperationMissedThreshold', key: 'late' },
      { event: 'Replication:OperationReplicatedAfterThreshold', key: 'late' },
    ]);
  },
);

test('a late version whose event could not be stored has it with the next look', async () => {
  const { clock, near } = await openLinked();
  const { client, context } = near.world;
  await client.put('/bucket/late', { body: 'x' });
  clock.hurry(16 * 60_000);
  const { metadata } = context;
  const errors: Error[] = [new Error('once'), new RowTooLong('the event is too long')];
  const apply: typeof metadata.apply = async (changes) => {
    const error = errors.shift();
    if (error !== undefined) throw error;
    return metadata.apply(changes);
  };
  const ctx = { ...context, metadata: Object.create(metadata, { apply: { value: apply } }) };
  const late = new LateVersions();
  await late.announce(ctx, never);
  expect(await events(near)).toEqual([]);
  const other = new LateVersions();
  // An event that no store takes is not tried again.
  for (let look = 0; look < 2; look += 1) await other.announce(ctx, never);
  expect(await events(near)).toEqual([]);
  for (let look = 0; look < 2; look += 1) await late.announce(ctx, never);
  expect(await events(near)).toMatchObject([{ event: 'Replication:OperationMissedThreshold', key: 'late' }]);
});

test('a version whose task is dropped from the queue has OperationFailedReplication and OperationNotTracked', async () => {
  const { clock, near } = await openLinked({ SVC_QUEUE_RETENTION: '3h' });
  await near.world.client.put('/bucket/dropped', { body: 'x' });
  const saved = beginBounds();
  for (const ms of [5 * 3_600_000, 11 * 60_000, 11 * 60_000]) {
    clock.hurry(ms);
    await boundQueues(near.world.context, saved, never);
  }
  await drained(near);
  expect((await events(near)).map(({ event }) => event).toSorted()).toEqual([
    'Replication:OperationFailedReplication',
    'Replication:OperationNotTracked',
  ]);
});

test('a replicator that is stopped in the middle of an upload leaves none open at the peer, once the next one runs', async () => {
  // Longer than the test waits.
  const { near, far } = await openLinked({ SVC_REPLICATION_TIMEOUT: '90s' });
  const { client } = near.world;
  const uploadId = await createUpload(client, '/bucket/parts');
  const parts = [
    await putPart(client, '/bucket/parts', { uploadId, number: 1, body: Buffer.alloc(5 * 1024 * 1024, 7) }),
    await putPart(client, '/bucket/parts', { uploadId, number: 2, body: 'the end' }),
  ];
  await complete(client, '/bucket/parts', { uploadId, parts });
  const open = async () => (await far.world.client.get('/bucket?uploads')).all('UploadId');
  let isAtPart = false;
  let release = (): void => {};
  far.before = (target) => {
    if (!target.includes('partNumber=2')) return undefined;
    isAtPart = true;
    return new Promise<void>((resolve) => (release = resolve));
  };
  const first = startWorkers(near.world.context, ['replicator'], never);
  await vi.waitFor(() => expect(isAtPart).toBe(true), until);
  await first.stop();
  release();
  expect(await open()).toHaveLength(1);
  // The next one does not wait for the peer before it sends versions, here and to other peers.
  const [left = ''] = await open();
  const hangs = new Promise<void>((resolve) => (release = resolve));
  far.before = (target) => (target.includes(left) ? hangs : undefined);
  run(near);
  await settled(near, '/bucket/parts', 'COMPLETED');
  expect(await open()).toEqual([left]);
  release();
  await vi.waitFor(async () => expect(await open()).toEqual([]), until);
});

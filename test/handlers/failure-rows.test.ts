/** Rows of a queue whose failure row, or dead letter, does not fit into a row of the store. */
import { expect, test, vi } from 'vitest';
import { rowsOfHour, scanHours } from '../../src/metadata/background/hourly-queues.ts';
import { type HourlyRow, hourlyQueues } from '../../src/metadata/records/queues.ts';
import { commitLimits, MetadataDamaged, type SideChange } from '../../src/ports/metadata-store.ts';
import type { Fields } from '../../src/ports/telemetry.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { customer, encryptingSettings } from '../support/encryption.ts';
import type { GatewayWorld } from '../support/gateway.ts';
import { keysIn, rule as notifyRule, openNotifyWorld, targetsAt } from '../support/notify-world.ts';
import {
  drained,
  link,
  never,
  openSite,
  rule,
  run,
  settings,
  settled,
  until,
} from '../support/replication-sites.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

/** The row of a queue whose task names a key. */
async function findRow(
  { context: { metadata } }: GatewayWorld,
  queue: 'notify' | 'replication',
  key: string,
): Promise<HourlyRow> {
  for await (const hour of scanHours(metadata, queue))
    for (const { row } of await rowsOfHour(metadata, hour).next(100))
      if (JSON.stringify(row.task).includes(`"key":"${key}"`)) return row;
  throw new Error(`the queue has no task of ${key}`);
}

/** Replaces a row by the longest one that the store takes, as an earlier build may have queued it. */
async function lengthen(
  { context: { metadata } }: GatewayWorld,
  row: HourlyRow,
  lengthened: (padding: string) => object,
): Promise<void> {
  const { queue, slot, hour } = row;
  const put = (length: number): Promise<void> => {
    const longer = { ...row, task: lengthened('k'.repeat(length)) };
    const change: SideChange = { at: { table: hourlyQueues, in: { queue, slot, hour } }, put: longer };
    return metadata.apply([change]);
  };
  let length: number = commitLimits.rowBytes;
  while (
    !(await put(length).then(
      () => true,
      () => false,
    ))
  )
    length -= 1;
}

test('a version whose failure cannot be stored delays no version of another destination', async () => {
  const near = await openSite({ settings: { ...settings, ...(await encryptingSettings()) } });
  const far = await openSite();
  await link(near, far);
  const { client, context } = near.world;
  // A version that is never sent, because this service does not have its key.
  expect((await client.put('/bucket/poison', { body: 'x', headers: customer() })).status).toBe(200);
  const row = await findRow(near.world, 'replication', 'poison');
  await lengthen(near.world, row, (padding) => ({
    ...(row.task as object),
    destination: { Bucket: 'arn:sluice:replication::far:other', Account: padding },
  }));
  const errors: Fields[] = [];
  const telemetry = {
    ...context.telemetry,
    log: (level: string, message: string, fields: Fields = {}) =>
      void (level === 'ERROR' && errors.push({ message, ...fields })),
  };
  const running = startWorkers({ ...context, telemetry }, ['replicator'], never);
  try {
    for (const key of ['a', 'b', 'c']) {
      await client.put(`/bucket/${key}`, { body: 'one' });
      await settled(near, `/bucket/${key}`, 'COMPLETED');
    }
    expect(errors.filter(({ message }) => message === 'a worker failed')).toEqual([]);
  } finally {
    await running.stop();
  }
});

test.each([
  { how: 'at first', error: new Error('once more'), times: 2 },
  {
    how: 'because its metadata is damaged',
    error: new MetadataDamaged('damaged', { table: 'objects', row: 'poison', key: new Uint8Array() }),
    times: Number.POSITIVE_INFINITY,
  },
])('a version whose status cannot be stored $how has one failure', async ({ error, times }) => {
  const near = await openSite({ settings: { ...settings, ...(await encryptingSettings()) } });
  const far = await openSite();
  await link(near, far);
  const { client, context } = near.world;
  expect((await client.put('/bucket/poison', { body: 'x', headers: customer() })).status).toBe(200);
  const { metadata } = context;
  let thrown = 0;
  const commit: typeof metadata.commit = async (at, changes, options) => {
    const isStatus = changes.some((change) => 'put' in change && 'replication' in change.put);
    if (isStatus && thrown < times) {
      thrown += 1;
      throw error;
    }
    return metadata.commit(at, changes, options);
  };
  const faulty = Object.create(metadata, { commit: { value: commit } });
  const running = startWorkers({ ...context, metadata: faulty }, ['replicator'], never);
  try {
    await drained(near);
    expect(thrown).toBeGreaterThan(0);
    for (const query of ['', '?bucket=bucket']) {
      const { failed } = await operatorOf(near.world).must('GET', `/replication/failed${query}`);
      expect(failed).toMatchObject([{ key: 'poison', error: expect.stringContaining('SSE-C') }]);
    }
  } finally {
    await running.stop();
  }
});

test('an event that can become no dead letter delays no event of another target', async () => {
  await using refusing = await openWebhookSink();
  await using taking = await openWebhookSink();
  refusing.answer = status(400);
  await using world = await openNotifyWorld({
    targets: targetsAt({ refusing, taking }),
    rules: [notifyRule('refusing', { prefix: 'refused' }), notifyRule('taking', { prefix: 'taken' })],
  });
  const { client } = world;
  await client.put('/bucket/refused', { body: 'x' });
  const row = await findRow(world.world, 'notify', 'refused');
  const { message, ...task } = row.task as { readonly message: object };
  await lengthen(world.world, row, (padding) => ({ ...task, message: { ...message, padding } }));
  world.worker.start();
  await vi.waitFor(() => expect(refusing.received).not.toEqual([]), until);
  for (const key of ['taken-a', 'taken-b']) {
    await client.put(`/bucket/${key}`, { body: 'x' });
    await vi.waitFor(() => expect(keysIn(taking.received)).toContain(key), until);
  }
});

test('a target whose deliveries throw an unexpected error delays no other, and counts as a panic', async () => {
  await using broken = await openWebhookSink();
  await using taking = await openWebhookSink();
  const panics: unknown[] = [];
  await using world = await openNotifyWorld({
    targets: targetsAt({ broken, taking }),
    rules: [notifyRule('broken', { prefix: 'a' }), notifyRule('taking', { prefix: 'b' })],
    wrap: (context) => ({
      ...context,
      telemetry: {
        ...context.telemetry,
        count: (name, labels) => void (name === 'svc_worker_panic_total' && panics.push(labels)),
      },
      sinks: {
        close: async () => context.sinks?.close(),
        open: async (id) => {
          if (id === 'broken') throw new Error('the sink cannot be opened');
          return (await context.sinks?.open(id)) ?? 'no sinks';
        },
      },
    }),
  });
  await world.client.put('/bucket/a', { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(panics).toContainEqual({ worker: 'notify', shard: '' }), until);
  await world.client.put('/bucket/b', { body: 'x' });
  await vi.waitFor(() => expect(keysIn(taking.received)).toContain('b'), until);
});

test('the longest texts that a replication rule takes leave room for the failure of the longest key', async () => {
  const near = await openSite({ settings: { ...settings, ...(await encryptingSettings()) } });
  const far = await openSite();
  const { client } = near.world;
  const criteria =
    '<SourceSelectionCriteria><SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects></SourceSelectionCriteria>';
  const keyId = (length: number, more = ''): string =>
    `<EncryptionConfiguration><ReplicaKmsKeyID>${'"'.repeat(length)}${more}</ReplicaKmsKeyID></EncryptionConfiguration>`;
  await link(near, far);
  const put = async (destination: string): Promise<number> => {
    const body = rule('far', '', criteria, destination).replace('<ID>r<', `<ID>${'"'.repeat(255)}<`);
    return (await client.put('/bucket?replication', { body })).status;
  };
  expect(await put(keyId(2_049))).toBe(400);
  expect(await put(keyId(1, 'ä'))).toBe(400);
  expect(await put(`<Account>${'1'.repeat(257)}</Account>${keyId(1)}`)).toBe(400);
  const long = rule('far').replace(/<Role>(.*)</, `<Role>$1/${'r'.repeat(2_048)}<`);
  expect((await client.put('/bucket?replication', { body: long })).status).toBe(400);
  expect(await put(keyId(2_048))).toBe(200);
  const stored = await client.put(`/bucket/${'%01'.repeat(1_024)}`, { body: 'x', headers: customer() });
  expect(stored.status).toBe(200);
  run(near);
  await vi.waitFor(async () => {
    const { failed } = await operatorOf(near.world).must('GET', '/replication/failed');
    expect(failed).toMatchObject([{ key: '\u0001'.repeat(1_024), error: expect.stringContaining('SSE-C') }]);
  }, until);
});

/**
 * `node bench/notify.ts`: what the notify worker of one gateway process delivers in a second to one real NATS (JetStream) or Kafka, from a
 * queue that clients' PUTs have filled (`embedded`, `file`, flushed writes); and what each event costs the worker's process.
 */
import { rm } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Admin, ListOffsetTimestamps } from '@platformatic/kafka';
import { inParallel } from '../src/base/concurrency.ts';
import { startSinkServer } from '../test/support/engines/sink-servers.ts';
import { loadClient, pathOf } from '../test/support/load-client.ts';
import { startServer, testCredentials } from '../test/support/server.ts';
import { cpuSeconds } from './lib/process-cost.ts';

const { values } = parseArgs({
  options: {
    sinks: { type: 'string', default: 'nats,kafka' },
    events: { type: 'string', default: '40000' },
    clients: { type: 'string', default: '32' },
  },
});
const events = Number(values.events);
const goal = 5_000;

interface Stored {
  readonly target: Readonly<Record<string, string>>;
  /** How many events the sink has stored. */
  count(): Promise<number>;
  close(): Promise<void>;
}

const openers: Readonly<Record<'nats' | 'kafka', (port: number) => Promise<Stored>>> = {
  async nats(port) {
    const client = await connect({ servers: `127.0.0.1:${port}` });
    const manager = await jetstreamManager(client);
    await manager.streams.add({ name: 'events', subjects: ['events'] });
    return {
      target: { type: 'nats', url: `nats://127.0.0.1:${port}`, subject: 'events' },
      count: async () => (await manager.streams.info('events')).state.messages,
      close: () => client.close(),
    };
  },
  async kafka(port) {
    const bootstrapBrokers = [`127.0.0.1:${port}`];
    const partitions = 4;
    const admin = new Admin({ clientId: 'bench', bootstrapBrokers });
    await admin.createTopics({ topics: ['events'], partitions, replicas: 1 });
    const asked = Array.from({ length: partitions }, (_, partitionIndex) => ({
      partitionIndex,
      timestamp: ListOffsetTimestamps.LATEST,
    }));
    return {
      target: { type: 'kafka', url: `kafka://127.0.0.1:${port}`, topic: 'events' },
      async count() {
        const [topic] = await admin.listOffsets({ topics: [{ name: 'events', partitions: asked }] });
        return topic?.partitions.reduce((sum, { offset }) => sum + Number(offset), 0) ?? 0;
      },
      close: () => admin.close(),
    };
  },
};

async function measure(name: 'nats' | 'kafka'): Promise<void> {
  const engine = await startSinkServer(name);
  const sink = await openers[name](engine.port);
  const env = {
    SVC_PROCESSES: '1',
    SVC_LOG_LEVEL: 'WARN',
    SVC_EGRESS_ALLOW: '127.0.0.0/8',
    SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'sink', accounts: ['*'], ...sink.target }]),
  };
  const first = await startServer({ env: { ...env, SVC_WORKERS: 'gc', SVC_FSYNC: 'never' } });
  const client = loadClient(first.url, testCredentials.root);
  await client.expect({ method: 'PUT', path: pathOf('bucket') });
  const rule =
    '<QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:root-account:sink</Queue></QueueConfiguration>';
  await client.expect({
    method: 'PUT',
    path: pathOf('bucket'),
    query: { notification: '' },
    body: `<NotificationConfiguration>${rule}</NotificationConfiguration>`,
  });
  // The configuration has queued the test event.
  const numbers = Array.from({ length: events - 1 }, (_, n) => n);
  await inParallel(Number(values.clients), numbers, (n) =>
    client.expect({ method: 'PUT', path: pathOf('bucket', `key-${n}`), body: 'x' }),
  );
  client.close();
  await first.kill9();
  const second = await startServer({ env: { ...env, SVC_WORKERS: 'notify' }, dataDir: first.dataDir });
  const pid = second.process.pid ?? 0;
  const poll = async (least: number): Promise<{ readonly count: number; readonly at: number }> => {
    for (;;) {
      const count = await sink.count();
      if (count >= least) return { count, at: performance.now() };
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const begin = await poll(1);
  const cpu = cpuSeconds(pid);
  const end = await poll(events);
  const seconds = (end.at - begin.at) / 1000;
  const sent = end.count - begin.count;
  const rate = sent / seconds;
  const micros = ((cpuSeconds(pid) - cpu) * 1e6) / sent;
  console.log(
    `${name}: ${events} events queued, ${end.count} stored; ${sent} in ${seconds.toFixed(1)} s: ${rate.toFixed(0)}/s (goal ${goal}, ratio ${(rate / goal).toFixed(2)}), ${micros.toFixed(0)} µs of CPU for each`,
  );
  await second.stop();
  await sink.close();
  await engine[Symbol.asyncDispose]();
  await rm(second.dataDir, { recursive: true, force: true });
}

for (const name of values.sinks.split(',')) await measure(name as 'nats' | 'kafka');

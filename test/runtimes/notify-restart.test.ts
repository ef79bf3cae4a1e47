/** A gateway that is killed with a filled queue of events delivers each of them after its restart, those of an object in order. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

/** The lease of the killed process expires first, after 15 s. */
const patience = { timeout: 180_000, interval: 100 };
const keys = 40;

interface Message {
  readonly Records?: readonly {
    readonly s3: {
      readonly object: { readonly key: string; readonly eTag: string; readonly sequencer: string };
    };
  }[];
}

test('after kill -9 of a gateway with queued events none is lost, and the events of an object arrive in order', async () => {
  await using sink = await openWebhookSink();
  const env = {
    SVC_FSYNC: 'never',
    SVC_PROCESSES: '2',
    SVC_LOG_LEVEL: 'WARN',
    SVC_EGRESS_ALLOW: '127.0.0.0/8',
    SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', accounts: ['*'], type: 'webhook', url: sink.url }]),
  };
  const rule =
    '<QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:root-account:hook</Queue></QueueConfiguration>';
  const answered = new Map<string, string[]>();
  async function write(client: LoadClient, rounds: number): Promise<void> {
    const writeKey = async (n: number): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) {
        const key = `key-${n}`;
        const body = `${round} of ${rounds}`;
        const { headers } = await client.expect({ method: 'PUT', path: pathOf('bucket', key), body });
        answered.set(key, [...(answered.get(key) ?? []), String(headers['etag']).replaceAll('"', '')]);
      }
    };
    await Promise.all(Array.from({ length: keys }, (_, n) => writeKey(n)));
  }
  /** The ETags of the events of a key in order of arrival, without repetitions. */
  const arrived = (key: string): readonly string[] => {
    const events = sink.received
      .flatMap(({ body }) => (JSON.parse(body) as Message).Records ?? [])
      .filter(({ s3 }) => s3.object.key === key);
    return [...new Map(events.map(({ s3 }) => [s3.object.sequencer, s3.object.eTag])).values()];
  };

  const first = await startServer({ env });
  const { dataDir } = first;
  let client = loadClient(first.url, testCredentials.root);
  await client.expect({ method: 'PUT', path: pathOf('bucket') });
  await client.expect({
    method: 'PUT',
    path: pathOf('bucket'),
    query: { notification: '' },
    body: `<NotificationConfiguration>${rule}</NotificationConfiguration>`,
  });
  await expect.poll(() => sink.received.length, patience).toBe(1);
  // The target takes nothing while the queue fills; then it takes some, and the gateway is killed in the midst of them.
  sink.answer = status(503);
  await write(client, 5);
  sink.answer = (reply) => void setTimeout(() => reply.writeHead(204).end(), 5);
  sink.received.length = 0;
  await expect.poll(() => sink.received.length, { ...patience, interval: 5 }).toBeGreaterThan(30);
  await first.kill9();
  client.close();
  const delivered = [...answered.keys()].reduce((sum, key) => sum + arrived(key).length, 0);
  expect(delivered).toBeLessThan(keys * 5);

  const second = await startServer({ env, dataDir });
  client = loadClient(second.url, testCredentials.root);
  try {
    await write(client, 1);
    const isComplete = (): boolean =>
      [...answered].every(([key, etags]) => arrived(key).length >= etags.length);
    await expect.poll(isComplete, patience).toBe(true);
    for (const [key, etags] of answered) expect(arrived(key)).toEqual(etags);
    const targets = async () => {
      const { text } = await client.expect({ path: '/admin/v1/notify/targets' });
      return (JSON.parse(text) as { readonly targets: readonly object[] }).targets;
    };
    await expect
      .poll(targets, patience)
      .toEqual([expect.objectContaining({ id: 'hook', state: 'ok', queued: 0, deadLetters: 0 })]);
  } finally {
    client.close();
    await second.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
});

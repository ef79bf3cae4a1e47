/**
 * kill -9 of gateways that deliver events to a receiver which refuses at random: every acknowledged change of an object
 * arrives, and those of an object in their order. The client gives each change of an object a larger size, and the
 * receiver records the sizes: nothing that the gateway says about the order is used.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openDice } from '../support/dice.ts';
import { loadClient, Unanswered } from '../support/load-client.ts';
import { rule } from '../support/notify-world.ts';
import { startServer } from '../support/server.ts';
import { type Answer, openWebhookSink, type Received, status } from '../support/webhook-sink.ts';
import { childrenOf } from './kill-rounds.ts';

/** More for a longer run: `KILL_ROUNDS=50 SEED=7 npx vitest run test/simulation/event-order.test.ts`. */
const rounds = Number(process.env['KILL_ROUNDS'] ?? 4);
const writesPerRound = 150;
const until = { timeout: 180_000, interval: 50 };

interface Record {
  readonly s3: {
    readonly bucket: { readonly name: string };
    readonly object: { readonly key: string; readonly size: number };
  };
}

/** The sizes of each object in the order of their first arrival. */
function sizesOf(received: readonly Received[]): Map<string, Set<number>> {
  const sizes = new Map<string, Set<number>>();
  for (const { body } of received)
    for (const { s3 } of (JSON.parse(body) as { readonly Records?: readonly Record[] }).Records ?? []) {
      const object = `${s3.bucket.name}/${s3.object.key}`;
      sizes.set(object, (sizes.get(object) ?? new Set()).add(s3.object.size));
    }
  return sizes;
}

test(
  'every acknowledged change sends its event, and those of an object arrive in order, through refusals and kill -9',
  async () => {
    const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
    const dataDir = mkdtempSync(join(tmpdir(), 'sluice-event-order-'));
    onTestFinished(({ task }) => {
      if (task.result?.state === 'fail') console.error(`SEED=${seed} data in ${dataDir}`);
      else rmSync(dataDir, { recursive: true, force: true });
    });
    const dice = openDice(seed);
    await using sink = await openWebhookSink();
    const taken: Received[] = [];
    let refusedOf100 = 0;
    const refusals: readonly Answer[] = [
      status(503),
      status(500),
      status(403),
      (reply) => reply.socket?.destroy(),
      // Never answered.
      () => {},
    ];
    sink.answer = (reply, request) => {
      const isRefused = dice.roll(100) < refusedOf100;
      // A refusal may be an answer that was lost after the receiver took the event.
      if (!isRefused || dice.chance(10)) taken.push(request);
      (isRefused ? dice.pick(refusals) : status(204))(reply, request);
    };
    const env = {
      SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', type: 'webhook', url: sink.url, accounts: ['*'] }]),
      SVC_EGRESS_ALLOW: '127.0.0.0/8',
      SVC_NOTIFY_INTERVAL: '50ms',
      SVC_NOTIFY_TIMEOUT: '1s',
      SVC_LOG_LEVEL: 'ERROR',
    };
    const objects = ['one', 'two'].flatMap((bucket) =>
      Array.from({ length: 8 }, (_, n) => ({ bucket, key: `k${n}`, size: 0 })),
    );
    const acknowledged = new Map<string, number[]>();
    let writes = 0;
    for (let round = 0; round < rounds; round += 1) {
      refusedOf100 = dice.pick([0, 3, 30, 60]);
      const isSpread = round % 2 === 0;
      const server = await startServer({ dataDir, env: { ...env, SVC_PROCESSES: isSpread ? '2' : '1' } });
      onTestFinished(server.kill9);
      const client = loadClient(server.url, server.credentials.root);
      if (round === 0)
        for (const bucket of ['one', 'two']) {
          await client.expect({ method: 'PUT', path: `/${bucket}` });
          // Without an account: the one of `rule` is another tenant here.
          const body = `<NotificationConfiguration>${rule('hook').replace('123456789012', '')}</NotificationConfiguration>`;
          await client.expect({ method: 'PUT', path: `/${bucket}`, query: [['notification', '']], body });
        }
      const stop = new AbortController();
      const load = objects.map(async (object) => {
        const { bucket, key } = object;
        while (!stop.signal.aborted) {
          object.size += 1;
          try {
            await client.expect({ method: 'PUT', path: `/${bucket}/${key}`, body: 'x'.repeat(object.size) });
          } catch (cause) {
            // Its outcome is unknown, so its event may or may not arrive.
            if (!(cause instanceof Unanswered)) throw cause;
            await new Promise((resolve) => setTimeout(resolve, 20));
            continue;
          }
          writes += 1;
          const sizes = acknowledged.get(`${bucket}/${key}`) ?? [];
          acknowledged.set(`${bucket}/${key}`, sizes);
          sizes.push(object.size);
        }
      });
      const written = async (count: number): Promise<void> => {
        const goal = writes + count;
        await Promise.race([
          vi.waitFor(() => expect(writes).toBeGreaterThanOrEqual(goal), until),
          // A wrong answer ends the test at once.
          Promise.all(load),
        ]);
      };
      await written(writesPerRound);
      if (isSpread) {
        const pid = dice.pick(childrenOf(server.process.pid ?? 0));
        process.kill(pid, 'SIGKILL');
        await written(writesPerRound);
      }
      await new Promise((resolve) => setTimeout(resolve, dice.roll(1_000)));
      await server.kill9();
      stop.abort();
      await Promise.all(load);
      client.close();
    }
    refusedOf100 = 0;
    const server = await startServer({ dataDir, env });
    onTestFinished(server.kill9);
    try {
      await vi.waitFor(() => {
        const arrived = sizesOf(taken);
        for (const [object, sizes] of acknowledged)
          expect(
            sizes.filter((size) => !arrived.get(object)?.has(size)),
            object,
          ).toEqual([]);
      }, until);
    } finally {
      await server.stop();
    }
    for (const [object, sizes] of sizesOf(taken))
      expect([...sizes], object).toEqual([...sizes].sort((a, b) => a - b));
    expect(writes).toBeGreaterThanOrEqual(rounds * writesPerRound);
  },
  300_000 + rounds * 30_000,
);

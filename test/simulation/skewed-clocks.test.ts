/** Two gateways whose clocks are minutes apart, over one engine: the store's clock orders, expires and sweeps. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { Context } from '../../src/context.ts';
import { backlog } from '../../src/metadata/background/queues.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { alice, background } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { type Client, openClient } from '../support/gateway-client.ts';
import { missing, type SharedStore, sharedStore } from './shared-store.ts';

const minute = 60_000;

interface Skewed {
  /** Clients have the right time; the clock of their gateway is wrong. */
  readonly client: Client;
  readonly context: Context;
  close(): Promise<void>;
}

async function gatewayAt(store: SharedStore, offsetMs: number): Promise<Skewed> {
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + offsetMs };
  const config = configWith({
    ...store.env,
    SVC_DATA_DIR: store.dataDir,
    SVC_GC_GRACE: '5m',
    // A PUT whose key another PUT overwrites meanwhile keeps its bytes, whether its head was read before or after its body.
    SVC_PUT_RACE: 'retry',
  });
  const { context, close } = await compose(config, { credentials: [alice], clock });
  const client = openClient(createGateway(context, { basePath: '' }), systemClock, { credential: alice });
  return { client, context, close };
}

for (const kind of ['wide-column', 'ordered-kv'] as const) {
  describe.skipIf(missing[kind] !== undefined)(`on ${kind} ${missing[kind] ?? ''}`, () => {
    let store: SharedStore;
    let right: Skewed;
    beforeAll(async () => {
      store = await sharedStore(kind);
      right = await gatewayAt(store, 0);
    });
    afterAll(async () => {
      await right?.close();
      await store?.[Symbol.asyncDispose]();
    });

    describe.each([
      ['ahead', 10 * minute],
      ['behind', -10 * minute],
    ] as const)('with one of two gateways ten minutes %s', (name, offsetMs) => {
      let wrong: Skewed;
      beforeAll(async () => {
        wrong = await gatewayAt(store, offsetMs);
      });
      afterAll(() => wrong?.close());
      const inTurn = (turn: number): [Client, Client] =>
        turn % 2 === 0 ? [wrong.client, right.client] : [right.client, wrong.client];

      test('the later of two writes is the latest version, on either gateway', async () => {
        await right.client.put(`/plain-${name}`);
        for (let turn = 0; turn < 12; turn += 1) {
          const [writer, reader] = inTurn(turn);
          const path = `/plain-${name}/key`;
          expect((await writer.put(path, { body: `${turn}` })).status).toBe(200);
          expect((await reader.get(path)).text).toBe(`${turn}`);
          if (turn % 3 > 0) continue;
          await writer.delete(path);
          expect((await reader.get(path)).status).toBe(404);
        }
      });

      test('versions and delete markers are in the order in which they were written', async () => {
        const bucket = `/versioned-${name}`;
        await right.client.put(bucket);
        await setVersioning(right.client, bucket.slice(1), 'Enabled');
        const made: string[] = [];
        for (let turn = 0; turn < 12; turn += 1) {
          const [writer, reader] = inTurn(turn);
          const reply =
            turn % 4 === 3
              ? await writer.delete(`${bucket}/key`)
              : await writer.put(`${bucket}/key`, { body: `${turn}` });
          made.unshift(reply.header('*-version-id') ?? '');
          const versions = await reader.get(`${bucket}?versions`);
          expect(versions.all('VersionId')).toEqual(made);
          expect(versions.all('IsLatest').map(String)).toEqual(made.map((_, at) => String(at === 0)));
          expect((await reader.get(`${bucket}/key`)).status).toBe(turn % 4 === 3 ? 404 : 200);
        }
      });

      test('an upload works through either gateway', async () => {
        const bucket = `/uploads-${name}`;
        await right.client.put(bucket);
        for (let turn = 0; turn < 6; turn += 1) {
          const [one, other] = inTurn(turn);
          const path = `${bucket}/key-${turn}`;
          const uploadId = await createUpload(one, path);
          expect((await other.get(`${bucket}?uploads`)).all('UploadId')).toEqual([uploadId]);
          const first = await putPart(other, path, { uploadId, number: 1, body: 'replaced' });
          const parts = [await putPart(one, path, { uploadId, number: 1, body: `part ${turn}` })];
          expect(parts[0]?.etag).not.toBe(first.etag);
          if (turn % 3 === 2) expect((await other.delete(path, { query: { uploadId } })).status).toBe(204);
          else expect((await complete(other, path, { uploadId, parts })).status).toBe(200);
          expect((await one.get(`${bucket}?uploads`)).all('UploadId')).toEqual([]);
          const got = await one.get(path);
          expect(turn % 3 === 2 ? got.status : got.text).toBe(turn % 3 === 2 ? 404 : `part ${turn}`);
        }
      });

      test('a bucket that is deleted and created again is listed by both', async () => {
        for (let turn = 0; turn < 6; turn += 1) {
          const [one, other] = inTurn(turn);
          expect((await one.put(`/coming-${name}`)).status).toBe(200);
          expect((await other.get('/')).all('Name')).toContain(`coming-${name}`);
          expect((await other.delete(`/coming-${name}`)).status).toBe(204);
          expect((await one.get('/')).all('Name')).not.toContain(`coming-${name}`);
        }
      });

      test('neither sweeps what the other is about to write, nor collects before the grace is over', async () => {
        const bucket = `/swept-${name}`;
        await right.client.put(bucket);
        // The bytes of earlier uploads are due immediately.
        await background(right.context).gc();
        for (const [writing, sweeping] of [
          [right, wrong],
          [wrong, right],
        ] as const) {
          const { promise: held, resolve: goOn } = Promise.withResolvers<void>();
          const body = Buffer.alloc(200_000, 'slow');
          const slow = writing.client.put(`${bucket}/key`, {
            body,
            payload: 'unsigned',
            async *arriving(bytes) {
              yield bytes.subarray(0, 100_000);
              await held;
              yield bytes.subarray(100_000);
            },
          });
          await background(sweeping.context).sweep();
          await sweeping.client.put(`${bucket}/key`, { body: 'meanwhile' });
          goOn();
          expect((await slow).status).toBe(200);
          expect((await sweeping.client.get(`${bucket}/key`)).bytes.length).toBe(body.length);
          const queued = await backlog(sweeping.context.metadata, 'gc');
          expect(queued).toBeGreaterThan(0);
          await background(sweeping.context).gc();
          expect(await backlog(sweeping.context.metadata, 'gc')).toBe(queued);
        }
      });
    });
  });
}

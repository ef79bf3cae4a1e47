/** A gateway in workerd whose metadata objects split while it is used: under lost calls, evictions, restarts, and isolates that race. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Miniflare, type MiniflareOptions } from 'miniflare';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Send } from '../runtimes/client.ts';
import { durableBindings } from '../runtimes/workerd.ts';
import { bundleWorker } from './bundle.ts';
import { askAdmin, auditedWrites, clientsOfBoth, twoIsolates } from './gateways.ts';

let bundle = '';
beforeAll(async () => {
  bundle = await bundleWorker(join(import.meta.dirname, 'failing-shards.ts'));
});

let directory = '';
let running: Miniflare | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'split-'));
});
afterEach(async () => {
  await running?.dispose();
  await rm(directory, { recursive: true, force: true });
});

/** Keys are long, so that few requests fill an object: a busy machine answers few. */
const padding = 'x'.repeat(800);
const smallObjects = { ...durableBindings.bindings, SVC_METADATA_SPLIT_SIZE: '160KiB' };

/** Two isolates over the same objects. */
async function open() {
  const worker = new Miniflare({
    r2Persist: join(directory, 'r2'),
    durableObjectsPersist: join(directory, 'objects'),
    handleStructuredLogs: () => {},
    workers: twoIsolates(bundle, smallObjects),
  } as MiniflareOptions);
  running = worker;
  await worker.ready;
  const control = (query: string) => worker.dispatchFetch(`http://x/?break-shards=${query}`);
  return { worker, sends: await clientsOfBoth(worker), control };
}

async function listKeys(send: Send, bucket: string): Promise<string[]> {
  const keys: string[] = [];
  for (let token = ''; ; ) {
    const { status, text } = await send('GET', `/${bucket}?list-type=2&max-keys=70${token}`);
    expect(status, text).toBe(200);
    keys.push(...[...text.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key = '']) => key));
    const next = /<NextContinuationToken>(.*?)</.exec(text)?.[1];
    if (next === undefined) return keys;
    token = `&continuation-token=${encodeURIComponent(next)}`;
  }
}

/** The number of objects that the metadata are in. */
const countObjects = async (send: Send): Promise<number> =>
  (await askAdmin(send, 'storage/meta')).nodes.length;

const patience = { timeout: 180_000, interval: 500 };

test.each([
  ['none', ''],
  ['lose', 'receive,acceptEntries,takeOver,publishShard,addShard'],
  ['refuse', 'acceptEntries,takeOver,publishShard,addShard,placement'],
  ['evict', 'acceptEntries,takeOver,publishShard'],
  ['evict-late', 'receive,acceptEntries,takeOver,publishShard'],
] as const)(
  'objects split under writers (%s): listings, usage and the audit log have each write once, also after a restart',
  async (fault, names) => {
    const { worker, sends, control } = await open();
    const [one] = sends;
    expect((await one('PUT', '/split')).status).toBe(200);
    await control(`${fault}&share=0.1&names=${names}`);
    const sizes = new Map<string, number>();
    const answered = new Set<string>();
    let isOver = false;
    /** A request that fails has met a fault. */
    const unlessBroken = (cause: unknown): undefined => {
      if (fault === 'none') throw cause;
    };
    const writer = async (name: number): Promise<void> => {
      for (let turn = 0; !isOver; turn += 1) {
        const [key, size] = [`${turn % 7}/${name}-${turn}${padding}`, 100 + (turn % 50)];
        sizes.set(key, size);
        const send = sends[name % 2] as Send;
        const reply = await send('PUT', `/split/${key}`, { body: Buffer.alloc(size, 'x') }).catch(
          unlessBroken,
        );
        if (reply?.status === 200) answered.add(key);
      }
    };
    const lister = async (): Promise<void> => {
      while (!isOver) {
        const before = [...answered];
        const keys = await listKeys(sends[1], 'split').catch(unlessBroken);
        // A page that fails under a fault is no listing.
        if (keys === undefined) {
          await new Promise((resolve) => setTimeout(resolve, 100));
          continue;
        }
        expect(keys).toEqual([...new Set(keys)].sort());
        expect(keys).toEqual(expect.arrayContaining(before));
      }
    };
    const ended = Promise.all([...[0, 1, 2, 3].map(writer), lister()]);
    await vi
      .waitFor(async () => expect(await countObjects(one)).toBeGreaterThanOrEqual(3), patience)
      .finally(() => {
        isOver = true;
      });
    await ended;
    if (fault === 'none') expect(answered.size).toBe(sizes.size);
    else expect(await (await control('met')).json()).toBeGreaterThan(0);
    await control('none');
    const check = async (send: Send): Promise<void> => {
      const keys = await listKeys(send, 'split');
      expect(keys).toEqual([...new Set(keys)].sort());
      expect(keys).toEqual(expect.arrayContaining([...answered]));
      expect(keys.length).toBeLessThanOrEqual(sizes.size);
      const bytes = keys.reduce((sum, key) => sum + (sizes.get(key) ?? 0), 0);
      expect(await askAdmin(send, 'buckets/split')).toMatchObject({ objects: keys.length, bytes });
      const audited = await auditedWrites(send, 'split');
      for (const key of keys) expect(audited.get(key), key).toHaveLength(1);
      for (const key of answered) expect(audited.get(key), key).toEqual([200]);
      for (const key of keys.filter((_, n) => n % 17 === 0))
        expect((await send('GET', `/split/${key}`)).bytes.length).toBe(sizes.get(key));
    };
    for (const send of sends) await check(send);
    await worker.dispose();
    running = undefined;
    const again = await open();
    await check(again.sends[0]);
    expect(await countObjects(again.sends[0])).toBeGreaterThanOrEqual(3);
    expect((await again.sends[1]('PUT', '/split/later', { body: 'later' })).status).toBe(200);
  },
);

test('PutObject with If-None-Match: * succeeds for exactly one of 8 writers in two isolates, while objects split', async () => {
  const { sends } = await open();
  const [one] = sends;
  expect((await one('PUT', '/race')).status).toBe(200);
  let objects = 1;
  const until = performance.now() + patience.timeout;
  for (let round = 0; objects < 3; round += 1) {
    expect(performance.now(), `after ${round} rounds there are ${objects} objects`).toBeLessThan(until);
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, writer) =>
        (sends[writer % 2] as Send)('PUT', `/race/k${round}${padding}`, {
          body: `writer ${writer}`,
          headers: { 'if-none-match': '*' },
        }),
      ),
    );
    const winners = replies.flatMap(({ status }, writer) => (status === 200 ? [writer] : []));
    expect(winners, replies.map(({ status }) => status).join()).toHaveLength(1);
    for (const send of sends)
      expect((await send('GET', `/race/k${round}${padding}`)).text).toBe(`writer ${winners[0]}`);
    if (round % 5 === 0) objects = await countObjects(one);
  }
});

test('an object that ended in several of its alarms splits soon after the last of them', async () => {
  const { sends, control } = await open();
  const [one] = sends;
  expect((await one('PUT', '/alarms')).status).toBe(200);
  await control('evict&times=5&names=acceptEntries');
  const met = async () => Number(await (await control('met')).json());
  const put = (n: number) => one('PUT', `/alarms/k${n}`, { body: Buffer.alloc(100, 'x') });
  for (let n = 0; (await met()) < 5; n += 1) await put(n).catch(() => undefined);
  const ended = performance.now();
  await vi.waitFor(async () => {
    // A gateway learns of the new object when one refuses its call.
    await put(0);
    expect(await countObjects(one)).toBeGreaterThan(1);
  }, patience);
  // The runtime itself would wait 32 s now, and had waited 30 before.
  expect(performance.now() - ended).toBeLessThan(25_000);
});

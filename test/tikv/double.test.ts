/** The TiKV client under every fault that the double injects. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { storeHealth } from '../../src/backends/metadata/ordered-kv/health.ts';
import { Conflict, TikvError, Undetermined, Unreachable } from '../../src/backends/tikv/backoff.ts';
import { toWide } from '../../src/backends/tikv/messages.ts';
import { type Double, type Fault, noDouble, startDouble } from '../support/engines/tikv-double.ts';
import { one, two } from '../support/server-tls.ts';
import { transactionLaws } from './laws.ts';
import { buildMs, describeOnDouble } from './on-double.ts';
import { answering, bare, bytes, count, freshKeys, opened, put, settled, text } from './world.ts';

/** Starts every store and makes the first placement driver the leader. */
const heal = async (double: Double): Promise<void> => {
  for (const id of [1, 2, 3]) await double.startStore(id);
  await double.driver(double.endpoints[0] as string, { lead: 1 });
};

describeOnDouble('the TiKV client on the double', { drivers: 2, heal }, (engine) => {
  const endpoints = async (): Promise<readonly string[]> => (await engine).endpoints;

  transactionLaws(endpoints);

  test('transactions that lost a race run again until they are aborted', async () => {
    await using world = opened(await endpoints());
    let runs = 0;
    const work = world.client.transact(async () => {
      runs += 1;
      throw new Conflict('always');
    });
    await expect(work).rejects.toThrow(Conflict);
    expect(runs).toBeGreaterThan(5);
  });

  test('a transaction that loses each race is retried for four time budgets at most', async () => {
    await using world = opened(await endpoints(), { timeoutMs: 500 });
    const began = performance.now();
    let lastBegan = 0;
    const work = world.client.transact(async () => {
      lastBegan = performance.now() - began;
      await sleep(400);
      throw new Conflict('always');
    });
    await expect(work).rejects.toThrow(Conflict);
    // The last attempt begins after the longest wait.
    expect(lastBegan).toBeLessThan(4 * 500 + 1_000);
  });

  const refusals: readonly Fault['kind'][] = [
    'not-leader',
    'epoch-not-match',
    'region-not-found',
    'key-not-in-region',
    'server-is-busy',
    'stale-command',
    'store-not-match',
    'merging',
    'not-synced',
    'cut-before',
    'cut',
  ];
  test.each(refusals)('reads and writes succeed when stores sometimes answer %s', async (kind) => {
    await using world = opened(await endpoints());
    const double = await engine;
    const key = freshKeys();
    const commands = ['Get', 'Scan', 'PessimisticLock', 'Prewrite', 'Commit'];
    for (const command of commands) await double.fault({ command, kind, count: 2 });
    // Some commit in one phase, and some in two after the faults of Prewrite.
    await double.fault({ command: 'Prewrite', kind: 'two-phase', count: 3 });
    for (let i = 0; i < 3; i += 1) await count(world.client, key('n'));
    expect(text(await world.client.get(key('n')))).toBe('3');
    const page = { low: key(''), high: key('~'), limit: 5, reverse: false };
    expect(await (await world.client.snapshot()).scan(page)).toHaveLength(1);
    expect((await double.hits()).slice(0, commands.length)).toEqual(commands.map(() => 2));
  });

  test('a scan crosses regions that split, merge and change their leaders under it', async () => {
    await using world = opened(await endpoints());
    const double = await engine;
    const key = freshKeys();
    const names = Array.from({ length: 300 }, (_, i) => String(i).padStart(3, '0'));
    await world.client.transact(async (transaction) => {
      for (const name of names) transaction.put(key(name), bytes(name));
    });
    await double.chaos(2);
    for (let round = 0; round < 20; round += 1) {
      await double.split(key(names[round * 13] as string));
      await double.lead(key(names[round * 7] as string));
      for (const reverse of [false, true]) {
        const page = { low: key(''), high: key('~'), limit: 1000, reverse };
        const found = (await (await world.client.snapshot()).scan(page)).map(({ value }) => text(value));
        expect(found).toEqual(reverse ? names.toReversed() : names);
      }
    }
    await double.chaos(0);
    for (const name of names) await double.merge(key(name));
    expect(text(await world.client.get(key('299')))).toBe('299');
  });

  test('a store that is down is retried, or replaced when others lead', async () => {
    await using world = opened(await endpoints());
    const double = await engine;
    const key = freshKeys();
    await put(world.client, key('a'), 'x');
    await double.lead(key('a'), 1);
    await double.stopStore(1);
    const read = world.client.get(key('a'));
    await sleep(300);
    await double.startStore(1);
    expect(text(await read)).toBe('x');
    await double.stopStore(1, { handOver: true });
    await put(world.client, key('a'), 'y');
    expect(text(await world.client.get(key('a')))).toBe('y');
  });

  test('a store that never answers costs the time budget only, and is used again later', async () => {
    await using world = opened(await endpoints(), { timeoutMs: 4_000 });
    const double = await engine;
    const key = freshKeys();
    await put(world.client, key('a'), 'x');
    await double.fault({ command: 'Get', kind: 'drop' });
    const began = performance.now();
    await expect(world.client.get(key('a'))).rejects.toThrow(Unreachable);
    expect(performance.now() - began).toBeGreaterThan(3_000);
    await double.heal();
    expect(text(await world.client.get(key('a')))).toBe('x');
  });

  describe('a commit in two phases whose answer is lost', () => {
    test('is found committed when it is repeated', async () => {
      await using world = opened(await endpoints());
      const double = await engine;
      const key = freshKeys()('n');
      await count(world.client, key);
      await double.fault({ command: 'Prewrite', kind: 'two-phase' });
      await double.fault({ command: 'Commit', kind: 'cut', key, count: 3 });
      await count(world.client, key);
      expect(text(await world.client.get(key))).toBe('2');
      expect(await double.hits()).toEqual([1, 3]);
    });

    test.each(['lose', 'drop'] as const)('is undetermined when none ever arrives (%s)', async (kind) => {
      await using world = opened(await endpoints(), { timeoutMs: 1200 });
      await using reader = opened(await endpoints());
      const double = await engine;
      const key = freshKeys()('n');
      await put(world.client, key, 'old');
      await double.fault({ command: 'Prewrite', kind: 'two-phase' });
      await double.fault({ command: 'Commit', kind, key });
      const write = world.client.transact(async (transaction) => {
        await transaction.lock([key]);
        transaction.put(key, bytes('new'));
      });
      await expect(write).rejects.toThrow(Undetermined);
      await double.heal();
      // The client did not roll back: the store decides whether the commit applied, and the lock expires.
      const expected = kind === 'lose' ? 'new' : 'old';
      expect(text(await reader.client.get(key))).toBe(expected);
      await count(reader.client, freshKeys()('other'));
      await reader.client.transact(async (transaction) => {
        const [value] = await transaction.lock([key]);
        expect(text(value)).toBe(expected);
      });
    });
  });

  describe('abandoned locks', () => {
    test('of a long transaction last as long as its heart beats', async () => {
      await using world = opened(await endpoints());
      const double = await engine;
      const key = freshKeys()('a');
      await put(world.client, key, 'old');
      await world.client.transact(async (transaction) => {
        await transaction.lock([key]);
        // Longer than the lock lasts without a heartbeat.
        await sleep(8_000);
        transaction.put(key, bytes('mine'));
      });
      expect(text(await world.client.get(key))).toBe('mine');
      expect((await double.locks()).filter((lock) => same(lock.key, key))).toEqual([]);
    });

    test('of a dead owner are rolled back by the next transaction that needs the key, once they have expired', async () => {
      await using world = opened(await endpoints());
      await using others = bare(await endpoints());
      const key = freshKeys();
      await put(world.client, key('a'), 'old');
      const start = await others.pd.timestamp();
      const common = { primary_lock: key('a'), start_version: toWide(start), lock_ttl: toWide(700n) };
      await others.sender.one('PessimisticLock', key('a'), {
        request: {
          ...common,
          mutations: [{ op: 5, key: key('a') }],
          for_update_ts: toWide(start),
          min_commit_ts: toWide(start + 1n),
          wait_timeout: toWide(1000n),
          return_values: true,
        },
        backoff: others.backoff(),
      });
      await count(world.client, key('a'));
      expect(text(await world.client.get(key('a')))).toBe('NaN');
    });

    test('by a transaction that had committed at its primary are finished, not undone', async () => {
      await using world = opened(await endpoints());
      await using reader = opened(await endpoints());
      const double = await engine;
      const key = freshKeys();
      await double.split(key('m'));
      // The commit never reaches the secondary lock in the other region.
      await double.fault({ command: 'Commit', kind: 'drop', key: key('z') });
      await world.client.transact(async (transaction) => {
        await transaction.lock([key('a')]);
        transaction.put(key('a'), bytes('1'));
        transaction.put(key('z'), bytes('1'));
      });
      const page = { low: key(''), high: key('~'), limit: 5, reverse: false };
      const found = await (await reader.client.snapshot()).scan(page);
      expect(found.map(({ value }) => text(value))).toEqual(['1', '1']);
      await double.heal();
      await settled(async () => !(await double.locks()).some((lock) => same(lock.key, key('z'))));
    });
  });

  describe('a lock that the store does not remove', () => {
    test.each([
      ['though it says so', {}],
      ['and says why', { error: { abort: 'refused' } }],
    ])('%s, costs readers and writers the time budget only', async (_, answer) => {
      await using writer = opened(await endpoints());
      await using world = opened(await endpoints(), { timeoutMs: 1_000 });
      const double = await engine;
      const key = freshKeys();
      await double.split(key('m'));
      // The commit never reaches the secondary lock in the other region.
      await double.fault({ command: 'Commit', kind: 'drop', key: key('z') });
      await writer.client.transact(async (transaction) => {
        await transaction.lock([key('a')]);
        for (const name of ['a', 'z']) transaction.put(key(name), bytes('1'));
      });
      const many = answering('ResolveLock', answer);
      try {
        const { client } = world;
        const page = { low: key(''), high: key('~'), limit: 5, reverse: false };
        const scanned = client.snapshot().then((snapshot) => snapshot.scan(page));
        await Promise.all([
          expect(client.get(key('z'))).rejects.toThrow(Unreachable),
          expect(scanned).rejects.toThrow(Unreachable),
          expect(count(client, key('z'))).rejects.toThrow(TikvError),
        ]);
        // Each of them waits longer and longer.
        const asked = many.mock.calls.filter(([name]) => name === 'ResolveLock');
        expect(asked.length).toBeLessThan(1_000);
      } finally {
        many.mockRestore();
        await double.heal();
      }
      expect(text(await world.client.get(key('z')))).toBe('1');
    });
  });

  describe('PD', () => {
    test('changes its leader, and timestamps continue from the last one', async () => {
      await using world = opened([(await endpoints())[0] as string]);
      const double = await engine;
      const [first = '', second = ''] = double.endpoints;
      const key = freshKeys()('n');
      await count(world.client, key);
      await double.driver(second, { lead: 1 });
      await count(world.client, key);
      // The only configured endpoint is down; the client learned the other one from it.
      await double.driver(first, { up: 0, via: second });
      try {
        await count(world.client, key);
      } finally {
        await double.driver(first, { up: 1, lead: 1, via: second });
      }
      await count(world.client, key);
      expect(text(await world.client.get(key))).toBe('4');
    });

    test.each(['drop', 'refuse'] as const)(
      'that gives no timestamp is Unreachable in time (%s)',
      async (kind) => {
        await using world = opened(await endpoints(), { timeoutMs: 1000 });
        const double = await engine;
        await double.fault({ command: 'Tso', kind });
        await expect(world.client.now()).rejects.toThrow(Unreachable);
        await double.heal();
        expect(await world.client.now()).toBeGreaterThan(0);
      },
    );
  });
});

describe('the TiKV client over TLS', () => {
  if (noDouble !== undefined) {
    it.skip(`(${noDouble})`, () => {});
    return;
  }
  const directory = mkdtempSync(join(tmpdir(), 'sluice-tikv-tls-'));
  const file = (name: string, pem: string): string => {
    writeFileSync(join(directory, name), pem);
    return join(directory, name);
  };
  const tls = { ca: file('ca', one.cert), cert: file('cert', one.cert), key: file('key', one.key) };
  const engine = startDouble({ tls });
  beforeAll(() => engine, buildMs);
  afterAll(async () => {
    await (await engine)[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });
  const known = { ca: Buffer.from(one.cert), cert: Buffer.from(one.cert), key: Buffer.from(one.key) };

  test('reaches PD and stores under a certificate that they know, and so does health', async () => {
    const { endpoints } = await engine;
    await using world = opened(endpoints, { tls: known });
    const key = freshKeys()('a');
    await put(world.client, key, 'safe');
    expect(text(await world.client.get(key))).toBe('safe');
    expect((await storeHealth(endpoints, known)).nodes).toHaveLength(3);
  });

  test.each([
    ['with no certificate', { ca: known.ca }],
    [
      'with one of an authority that they do not know',
      { ...known, cert: Buffer.from(two.cert), key: Buffer.from(two.key) },
    ],
    ['that does not know theirs', { ...known, ca: Buffer.from(two.cert) }],
    ['that does not speak TLS', undefined],
  ])('is refused a client %s', async (_, given) => {
    const { endpoints } = await engine;
    await using world = opened(
      endpoints,
      given === undefined ? { timeoutMs: 800 } : { timeoutMs: 800, tls: given },
    );
    await expect(world.client.get(freshKeys()('a'))).rejects.toThrow(Unreachable);
    expect((await storeHealth(endpoints, given)).nodes).toEqual([]);
  });
});

const same = (encoded: string, key: Uint8Array): boolean => Buffer.from(encoded, 'base64').equals(key);

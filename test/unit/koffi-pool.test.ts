/** What librados is asked once a pool or a connection is closed. The library is a double: in C, a destroyed pointer would end the process. */
import { expect, test, vi } from 'vitest';
import { crc32c } from '../../src/backends/crypto/node.ts';
import { errno, RadosFailure } from '../../src/backends/data/cluster-pool/driver.ts';
import { koffiDriver } from '../../src/backends/data/cluster-pool/koffi-pool.ts';
import type { Librados } from '../../src/backends/data/cluster-pool/librados.ts';
import { Connection } from '../../src/backends/data/cluster-pool/pools.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { DataUnavailable } from '../../src/ports/object-bytes.ts';

const address = { id: 'a', user: 'client.a', opTimeoutMs: 1_000, monTimeoutMs: 1_000 };
const until = { timeout: 60_000, interval: 5 };
const options = { offset: 0, wantsAttribute: false };

/** Operations end when the test says so; `list` and `statPool` wait for `release`. */
function doubleOfLibrados() {
  let pointers = 100n;
  const destroyed = new Set<unknown>();
  const codes = new Map<unknown, number>();
  /** Functions that were given a pointer after it was destroyed. */
  const late: string[] = [];
  const called: string[] = [];
  const started: bigint[] = [];
  const gate = Promise.withResolvers<void>();
  const point = (out: BigUint64Array): number => {
    pointers += 1n;
    out[0] = pointers;
    return 0;
  };
  const newPointer = (): bigint => {
    pointers += 1n;
    return pointers;
  };
  const start = (completion: bigint): number => {
    started.push(completion);
    return 0;
  };
  const answers: Readonly<Record<string, (...args: never[]) => unknown>> = {
    create: point,
    openPool: (_cluster: bigint, _id: number, out: BigUint64Array) => point(out),
    createCompletion: (_argument: null, _callback: null, out: BigUint64Array) => point(out),
    createWrite: newPointer,
    createRead: newPointer,
    listBegin: newPointer,
    listEnd: newPointer,
    startWrite: (_op: bigint, _io: bigint, completion: bigint) => start(completion),
    startRead: (_io: bigint, _name: string, completion: bigint) => start(completion),
    cancel: (_io: bigint, completion: bigint) => {
      if (!codes.has(completion)) codes.set(completion, -errno.canceled);
      return 0;
    },
    isComplete: (completion: bigint) => (codes.has(completion) ? 1 : 0),
    returnValue: (completion: bigint) => codes.get(completion),
    closePool: (io: bigint) => destroyed.add(io),
    shutdown: (cluster: bigint) => destroyed.add(cluster),
  };
  const note = (name: string, args: readonly unknown[]): void => {
    called.push(name);
    if (args.some((arg) => destroyed.has(arg))) late.push(name);
  };
  const answer = (name: string, args: readonly unknown[]) => answers[name]?.(...(args as never[])) ?? 0;
  const call = (name: string, args: readonly unknown[]): unknown => {
    note(name, args);
    return answer(name, args);
  };
  async function inThread(name: string, args: readonly unknown[]): Promise<unknown> {
    note(name, args);
    if (name === 'statPool') await gate.promise;
    while (name === 'awaitCompletion' && !codes.has(args[0]))
      await new Promise((resolve) => setTimeout(resolve, 1));
    if (args.some((arg) => destroyed.has(arg))) late.push(`${name} in its thread`);
    return answer(name, args);
  }
  const functions = (name: string) =>
    Object.assign((...args: readonly unknown[]) => call(name, args), {
      async(...args: unknown[]) {
        const done = args.pop() as (error: null, result: unknown) => void;
        void inThread(name, args).then((result) => done(null, result));
      },
    });
  const lib = new Proxy({}, { get: (_, name) => functions(String(name)) }) as Librados;
  const native = { lib, crc32c, text: () => '' };
  const end = (completion: bigint | undefined, code: number): unknown => codes.set(completion, code);
  return { load: async () => native, native, late, called, started, end, release: () => gate.resolve() };
}

test('nothing reaches a pool or a connection after it was closed, and it waits for what is under way', async () => {
  const { load, late, called, release } = doubleOfLibrados();
  const cluster = await (await koffiDriver(load)).connect(address);
  const pool = await cluster.pool(1, '');
  const write = pool.write('c.0', { isNew: true, size: 1 });
  write.add(new Uint8Array(1), 0);
  const walk = pool.names()[Symbol.asyncIterator]();
  await walk.next();
  const reading = pool.read('c.1', new Uint8Array(1), options).done;
  const stats = pool.stats();
  await vi.waitFor(() => expect(called).toContain('statPool'), until);
  const closing = Promise.all([expect(reading).rejects.toThrow(RadosFailure), cluster.close()]);
  await expect(write.run()).rejects.toThrow('not connected');
  const refused = [
    () => pool.read('c.1', new Uint8Array(1), options).done,
    () => pool.attribute('c.1'),
    () => pool.remove('c.1'),
    () => pool.stats(),
    () => pool.names()[Symbol.asyncIterator]().next(),
    () => cluster.command({ prefix: 'status' }),
    () => cluster.poolId('data'),
    () => cluster.pool(2, ''),
  ];
  for (const ask of refused) await expect(ask()).rejects.toThrow('not connected');
  expect(called).not.toContain('closePool');
  release();
  await stats;
  await closing;
  expect(called.slice(-1)).toEqual(['shutdown']);
  await expect(walk.next()).rejects.toThrow('not connected');
  for (const ask of refused) await expect(ask()).rejects.toThrow('not connected');
  expect(late).toEqual([]);
  const count = (...names: readonly string[]) => called.filter((name) => names.includes(name)).length;
  expect(count('freeCursor')).toBe(count('listBegin', 'listEnd'));
});

test('a pool that is being opened when its connection is closed is closed too', async () => {
  const { load, late, called } = doubleOfLibrados();
  const cluster = await (await koffiDriver(load)).connect(address);
  const opening = cluster.pool(1, '');
  await vi.waitFor(() => expect(called).toContain('openPool'), until);
  await cluster.close();
  const pool = await opening;
  expect(called.slice(-2)).toEqual(['closePool', 'shutdown']);
  await expect(pool.remove('c.1')).rejects.toThrow('not connected');
  expect(late).toEqual([]);
});

test('a cluster that does not answer leaves a thread to the others', async () => {
  const { load, called, release } = doubleOfLibrados();
  const driver = await koffiDriver(load);
  const [hung, other] = [await driver.connect(address), await driver.connect(address)];
  const pool = await hung.pool(1, '');
  const stats = [pool.stats(), pool.stats()];
  await vi.waitFor(() => expect(called).toContain('statPool'), until);
  expect(await other.poolId('data')).toBe(0);
  release();
  await Promise.all(stats);
  await Promise.all([hung.close(), other.close()]);
});

test('clusters whose calls time out leave a thread to the others, however many they are', async () => {
  const { native } = doubleOfLibrados();
  const asking: { readonly cluster: unknown; readonly end: (code: number) => void }[] = [];
  const lookUpPool = Object.assign(() => 0, {
    async: (cluster: unknown, _name: string, done: (error: null, code: number) => void) => {
      asking.push({ cluster, end: (code) => done(null, code) });
    },
  });
  const lib = new Proxy(native.lib, {
    get: (target, name) => (name === 'lookUpPool' ? lookUpPool : Reflect.get(target, name)),
  });
  const driver = await koffiDriver(async () => ({ ...native, lib }));
  const ids = ['a', 'b', 'c', 'd'];
  const [d, ...silent] = (
    await Promise.all(ids.map((id) => driver.connect({ ...address, id })))
  ).toReversed();
  // Each is found silent by one call.
  for (const cluster of silent) {
    const asked = expect(cluster.poolId('data')).rejects.toThrow('no answer in time');
    await vi.waitFor(() => expect(asking).toHaveLength(1), until);
    asking.pop()?.end(-errno.timedOut);
    await asked;
  }
  const again = silent.map((cluster) => cluster.poolId('data'));
  await vi.waitFor(() => expect(asking).toHaveLength(1), until);
  const healthy = d?.poolId('data');
  await vi.waitFor(() => expect(asking).toHaveLength(2), until);
  asking.pop()?.end(7);
  expect(await healthy).toBe(7);
  // The silent ones are asked in turn, and one that answers has a thread as before.
  for (let left = 3; left > 0; left -= 1) {
    await vi.waitFor(() => expect(asking).toHaveLength(1), until);
    asking.pop()?.end(8);
  }
  expect(await Promise.all(again)).toEqual([8, 8, 8]);
});

test('operations of a client that was put on the blocklist end its connection, and not the next one', async () => {
  const { load, late, called, started, end } = doubleOfLibrados();
  const connection = new Connection({ driver: await koffiDriver(load), address, clock: systemClock });
  const read = async (): Promise<unknown> => {
    const pool = await connection.pool('1');
    return connection.attempt(() => pool.read('c.1', new Uint8Array(1), options).done);
  };
  const [first, second] = [read(), read()];
  for (const each of [first, second]) each.catch(() => {});
  await vi.waitFor(() => expect(started).toHaveLength(2), until);
  end(started[0], -errno.shutDown);
  await expect(first).rejects.toThrow(DataUnavailable);
  end(started[1], -errno.shutDown);
  const third = read();
  await expect(second).rejects.toThrow(DataUnavailable);
  await vi.waitFor(() => expect(started).toHaveLength(3), until);
  end(started[2], 1);
  expect(await third).toEqual({ length: 1 });
  await vi.waitFor(() => expect(called.filter((name) => name === 'shutdown')).toHaveLength(1), until);
  await connection.close();
  expect(late).toEqual([]);
});

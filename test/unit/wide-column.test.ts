/** The wide-column backend: which statements are repeated, on which nodes, and reads of ranges with too many tombstones. */
import cassandra from 'cassandra-driver';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { findMiddle, readPastTombstones } from '../../src/backends/metadata/wide-column/cursor.ts';
import {
  ReadFailed,
  SafeRetries,
  Session,
  speculativeReads,
} from '../../src/backends/metadata/wide-column/session.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';

describe('speculation', () => {
  const delaysOf = (query: string | object[]): number[] => {
    const plan = speculativeReads(500).newPlan('keyspace', query);
    return [plan.nextExecution({} as never), plan.nextExecution({} as never)];
  };

  test('sends a read to one more node, and to no third', () => {
    expect(delaysOf('SELECT row_k FROM t')).toEqual([500, -1]);
  });

  test('never repeats what writes, conditionally or not', () => {
    for (const query of ['UPDATE t SET a = ? IF b = ?', 'INSERT INTO t (a) VALUES (?)', 'DELETE FROM t'])
      expect(delaysOf(query)).toEqual([-1, -1]);
    expect(delaysOf([{ query: 'SELECT 1' }, { query: 'UPDATE t SET a = 1' }])).toEqual([-1, -1]);
  });
});

test('a statement is sent to two further nodes at most, and after a refusal to one', () => {
  const retries = new SafeRetries();
  const info = (nbRetry: number) => ({ nbRetry }) as never;
  const again = { useCurrentHost: false };
  for (const ask of ['onRequestError', 'onReadTimeout', 'onWriteTimeout'] as const) {
    expect(retries[ask](info(0))).toMatchObject(again);
    expect(retries[ask](info(1))).toMatchObject(again);
    expect(retries[ask](info(2))).not.toHaveProperty('useCurrentHost');
  }
  expect(retries.onUnavailable(info(0))).toMatchObject(again);
  expect(retries.onUnavailable(info(1))).not.toHaveProperty('useCurrentHost');
});

test('where the driver is closing and has tried no host, a connection and a serial read fail as unavailable', async () => {
  const session = new Session({ hosts: ['127.0.0.1:1'], localDc: 'dc', keyspace: 'k' });
  onTestFinished(() => void vi.restoreAllMocks());
  // Without a cluster no driver gets as far as to close. It throws this error then.
  const closing = new cassandra.errors.NoHostAvailableError(null as never, 'after shutdown');
  for (const method of ['connect', 'execute'] as const)
    vi.spyOn(cassandra.Client.prototype, method).mockImplementation(() => Promise.reject(closing));
  await expect(session.connect()).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(session.read('SELECT a FROM t', [], { serial: true })).rejects.toBeInstanceOf(
    StoreUnavailable,
  );
});

test('a node that is down is tried again at least every five seconds, however long it was down', async () => {
  const session = new Session({ hosts: ['127.0.0.1:1'], localDc: 'dc', keyspace: 'k' });
  onTestFinished(() => void vi.restoreAllMocks());
  let driver: cassandra.Client | undefined;
  vi.spyOn(cassandra.Client.prototype, 'connect').mockImplementation(async function (this: cassandra.Client) {
    driver = this;
  });
  await session.connect();
  const { options } = driver as unknown as { options: cassandra.ClientOptions };
  const pauses = options.policies?.reconnection?.newSchedule();
  const first = Array.from({ length: 100 }, () => Number(pauses?.next().value));
  expect(Math.max(...first)).toBeLessThanOrEqual(5000);
  expect(Math.min(...first)).toBeGreaterThanOrEqual(500);
});

const keys = fc.uint8Array({ minLength: 1, maxLength: 40 });

describe('a range that is refused', () => {
  test('has a middle inside it, or ends that are too near', () => {
    fc.assert(
      fc.property(keys, keys, (a, b) => {
        const [low, high] = Buffer.compare(a, b) < 0 ? [a, b] : [b, a];
        const middle = findMiddle({ low, high });
        if (middle === undefined) return;
        expect(Buffer.compare(low, middle)).toBe(-1);
        expect(Buffer.compare(middle, high)).toBe(-1);
      }),
    );
    expect(findMiddle({ low: Buffer.of(1), high: Buffer.of(3) })).toEqual(Buffer.of(2));
    expect(findMiddle({ low: Buffer.of(1), high: Buffer.of(1) })).toBeUndefined();
  });

  const name = (i: number): Buffer => Buffer.from(`a common beginning/${String(i).padStart(5, '0')}`);
  const dead = (i: number): boolean => i % 500 !== 7;
  const refusesBeyond = 50;
  /** A cluster that counts the tombstones of a read, and fails the read when there are too many before the last row. */
  const cluster = (reverse: boolean) => {
    const all = Array.from({ length: 2000 }, (_, i) => i);
    if (reverse) all.reverse();
    return async ({ low, high }: { low: Uint8Array; high: Uint8Array }, limit: number): Promise<number[]> => {
      const found: number[] = [];
      let passed = 0;
      for (const i of all) {
        if (Buffer.compare(name(i), low) < 0 || Buffer.compare(name(i), high) >= 0) continue;
        if (found.length === limit) break;
        if (!dead(i)) found.push(i);
        else if (++passed > refusesBeyond) throw new ReadFailed('tombstones');
      }
      return found;
    };
  };

  test('is read to the end of the requested range, in either direction', async () => {
    const bounds = { low: Buffer.of(0), high: Buffer.of(255) };
    for (const reverse of [false, true]) {
      const read = cluster(reverse);
      const all = reverse ? [1507, 1007, 507, 7] : [7, 507, 1007, 1507];
      expect(await readPastTombstones({ bounds, reverse, limit: 10, read })).toEqual(all);
      expect(await readPastTombstones({ bounds, reverse, limit: 2, read })).toEqual(all.slice(0, 2));
    }
  });

  test('fails where even a single key is refused, and immediately on other failures', async () => {
    const bounds = { low: Buffer.of(0), high: Buffer.of(255) };
    let asked = 0;
    const refusing = async (): Promise<never> => {
      asked += 1;
      throw new ReadFailed('tombstones');
    };
    await expect(readPastTombstones({ bounds, reverse: false, limit: 1, read: refusing })).rejects.toThrow(
      ReadFailed,
    );
    expect(asked).toBeLessThan(200);
    const broken = () => Promise.reject(new Error('something else'));
    await expect(readPastTombstones({ bounds, reverse: false, limit: 1, read: broken })).rejects.toThrow(
      'else',
    );
  });
});

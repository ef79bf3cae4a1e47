/** Writes any number of object heads directly into the store; all are copies of one that was put. */
import type { Entry, TikvClient } from '../../src/backends/tikv/client.ts';

export interface Heads {
  readonly client: TikvClient;
  /** The gateway's prefix in the cluster. */
  readonly prefix: string;
  /** The name of the object that was put; the digits at its end are the counter. */
  readonly first: string;
  readonly count: number;
}

const perTransaction = 2_000;
const inFlight = 4;
const rowsMax = 10_000;

/** @returns the raw key of the object at an index */
export async function seedHeads({ client, prefix, first, count }: Heads): Promise<(index: number) => Buffer> {
  const { key, value } = await headOf(client, prefix, first);
  const text = Buffer.from(key);
  const digits = /\d+$/.exec(first)?.[0].length ?? 0;
  const at = text.indexOf(first) + first.length - digits;
  const keyOf = (index: number): Buffer => {
    const row = Buffer.from(text);
    row.write(String(index).padStart(digits, '0'), at, 'latin1');
    return row;
  };
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const from = next;
      next += perTransaction;
      await client.transact(async (transaction) => {
        for (let i = from; i < Math.min(from + perTransaction, count); i += 1)
          transaction.put(keyOf(i), value);
      });
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return keyOf;
}

/** A new object has one row that contains its whole name: its head. */
async function headOf(client: TikvClient, prefix: string, name: string): Promise<Entry> {
  const [low, high] = [Buffer.from(prefix), Buffer.from(`${prefix}~`)];
  const rows = await (await client.snapshot()).scan({ low, high, limit: rowsMax, reverse: false });
  const [head] = rows.filter(({ key }) => Buffer.from(key).includes(name));
  if (head === undefined) throw new Error(`no row is about ${name}`);
  return head;
}

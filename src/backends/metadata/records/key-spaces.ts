/** The kinds of keys in a store, rows and others: the first byte of a key. */

/** First bytes of keys that are not rows; a row's is the first letter of its table's name. */
export const space = { catalog: 1, fence: 2, epoch: 3, expiry: 4 } as const;

/** A key of a kind: its byte and the rest. */
export function keyIn(name: keyof typeof space, rest: Uint8Array): Uint8Array {
  const key = new Uint8Array(rest.length + 1);
  key[0] = space[name];
  key.set(rest, 1);
  return key;
}

const encoder = new TextEncoder();
export const textKeyIn = (name: keyof typeof space, rest: string): Uint8Array =>
  keyIn(name, encoder.encode(rest));

// The index of rows that expire, sorted by time; the row's key follows.

const timeBytes = 8;
const noKey = new Uint8Array(0);

export function expiryKey(at: number, key: Uint8Array = noKey): Uint8Array {
  const entry = new Uint8Array(1 + timeBytes + key.length);
  entry[0] = space.expiry;
  new DataView(entry.buffer).setBigUint64(1, BigInt(Math.max(0, Math.ceil(at))));
  entry.set(key, 1 + timeBytes);
  return entry;
}

export const rowKeyOf = (entry: Uint8Array): Uint8Array => new Uint8Array(entry.subarray(1 + timeBytes));

export const expiryTime = (entry: Uint8Array): number =>
  Number(new DataView(entry.buffer, entry.byteOffset).getBigUint64(1));

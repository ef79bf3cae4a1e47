/** The kinds of keys in lmdb, rows and others: the first byte of a key. */

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

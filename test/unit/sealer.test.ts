/** Sealed texts open for their context and master key only, with the native and the portable hasher. */
import { describe, expect, test } from 'vitest';
import { nodeCipher, nodeHasher } from '../../src/backends/crypto/node.ts';
import { portableCipher, portableHasher } from '../../src/backends/crypto/portable.ts';
import { masterSealer, type SealingParts } from '../../src/backends/keys/sealing.ts';
import { systemRandom } from '../../src/ports/random.ts';

const random = systemRandom();
const one = random.bytes(32);
const two = random.bytes(32);
const secret = new TextEncoder().encode('a secret of some length');
const native = { hasher: nodeHasher(), cipher: nodeCipher(), random };
const portable = { hasher: portableHasher(), cipher: portableCipher(), random };
const sealerOf = (keys: readonly Uint8Array[], parts: SealingParts = native) =>
  masterSealer({ keys, ...parts });

describe('a sealer', () => {
  test('opens what it sealed', async () => {
    const sealer = sealerOf([one]);
    expect(await sealer.open(await sealer.seal(secret, 'here'), 'here')).toEqual(secret);
    const nothing = new Uint8Array(0);
    expect(await sealer.open(await sealer.seal(nothing, ''), '')).toEqual(nothing);
  });

  test('opens nothing for another context or under another key', async () => {
    const sealed = await sealerOf([one]).seal(secret, 'here');
    expect(await sealerOf([one]).open(sealed, 'there')).toBeUndefined();
    expect(await sealerOf([two]).open(sealed, 'here')).toBeUndefined();
  });

  test('opens nothing that was changed in any byte, cut or lengthened', async () => {
    const sealer = sealerOf([one]);
    const sealed = await sealer.seal(secret, 'here');
    for (let at = 0; at < sealed.length; at++) {
      const changed = sealed.slice();
      changed[at] = (changed[at] as number) ^ 1;
      expect(await sealer.open(changed, 'here'), `byte ${at}`).toBeUndefined();
    }
    for (const length of [0, 1, 40, 41, 56, sealed.length - 1])
      expect(await sealer.open(sealed.subarray(0, length), 'here')).toBeUndefined();
    expect(await sealer.open(new Uint8Array([...sealed, 0]), 'here')).toBeUndefined();
  });

  test('shows neither the secret nor whether two secrets are the same', async () => {
    const sealer = sealerOf([one]);
    const [first, second] = [await sealer.seal(secret, 'here'), await sealer.seal(secret, 'here')];
    expect(first).not.toEqual(second);
    expect(Buffer.from(first).includes(Buffer.from(secret))).toBe(false);
    expect(Buffer.from(first).includes(Buffer.from(one))).toBe(false);
  });

  test('seals under the first key and opens under all: a master key can be replaced', async () => {
    const before = await sealerOf([one]).seal(secret, 'here');
    const both = sealerOf([two, one]);
    expect(await both.open(before, 'here')).toEqual(secret);
    const after = await both.seal(secret, 'here');
    expect(await sealerOf([two]).open(after, 'here')).toEqual(secret);
    expect(await sealerOf([one]).open(after, 'here')).toBeUndefined();
  });

  test('is the same on every runtime', async () => {
    const sealed = await sealerOf([one]).seal(secret, 'here');
    expect(await sealerOf([one], portable).open(sealed, 'here')).toEqual(secret);
    const back = await sealerOf([one], portable).seal(secret, 'here');
    expect(await sealerOf([one]).open(back, 'here')).toEqual(secret);
    back[back.length - 1] = (back.at(-1) as number) ^ 1;
    expect(await sealerOf([one], portable).open(back, 'here')).toBeUndefined();
  });

  test('seals under another key what the master key then cannot open', async () => {
    const theirs = sealerOf([one]).under(two);
    const sealed = await theirs.seal(secret, 'here');
    expect(await sealerOf([one]).open(sealed, 'here')).toBeUndefined();
    expect(await theirs.open(sealed, 'here')).toEqual(secret);
    expect(await sealerOf([one]).under(one).open(sealed, 'here')).toBeUndefined();
  });

  test('takes keys of 32 bytes only, and at least one', () => {
    expect(() => sealerOf([])).toThrow('there is no master key');
    expect(() => sealerOf([one.subarray(1)])).toThrow('32 bytes');
  });
});

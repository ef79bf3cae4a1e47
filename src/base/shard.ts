/** The shard of a row, `fnv32a(key) % N`, which all backends use, and hashes of texts. */

/** FNV-1a, 32 bits, over the UTF-8 bytes. */
export function fnv32a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    // Names and ids are ASCII, where a character is its byte.
    if (code > 0x7f) return ofBytes(new TextEncoder().encode(text));
    hash = Math.imul(hash ^ code, 0x01000193);
  }
  return hash >>> 0;
}

function ofBytes(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** Every bit of the hash affects every bit of the result (the finalizer of MurmurHash3). */
export function mixBits(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** A shard in [0, ways), for one text always the same. */
export const hashToShard = (text: string, ways: number): number => fnv32a(text) % ways;

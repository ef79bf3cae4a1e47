/**
 * PD returns region boundaries in TiKV's own encoding: groups of eight bytes, each followed by a byte that says how many of them count,
 * so that encoded keys sort as the keys do.
 */
const group = 8;
const full = 0xff;

export function encodeKey(key: Uint8Array): Buffer {
  const groups = Math.floor(key.length / group) + 1;
  const encoded = Buffer.alloc(groups * (group + 1));
  for (let i = 0; i < groups; i += 1) {
    const piece = key.subarray(i * group, (i + 1) * group);
    encoded.set(piece, i * (group + 1));
    encoded[i * (group + 1) + group] = full - (group - piece.length);
  }
  return encoded;
}

/** The key of a boundary; a boundary inside a key's encoding decodes to the part that is present. */
export function decodeKey(encoded: Uint8Array): Buffer {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at + group < encoded.length; at += group + 1) {
    const padding = full - (encoded[at + group] as number);
    pieces.push(encoded.subarray(at, at + group - padding));
    if (padding > 0) break;
  }
  return Buffer.concat(pieces);
}

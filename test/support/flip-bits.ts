/** Flips bits in the files of a data directory, like a failing disk; the printed seed repeats them. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type Draw = () => number;

/** Random numbers from 0 to 1; the same seed gives the same numbers. */
export function drawFrom(seed: number): Draw {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

export const filesUnder = (directory: string): readonly string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();

/** Flips `count` bits anywhere in a file. @returns their offsets */
export function flipBits(path: string, { draw, count }: { draw: Draw; count: number }): readonly number[] {
  const bytes = readFileSync(path);
  if (bytes.length === 0) return [];
  const offsets = Array.from({ length: count }, () => Math.floor(draw() * bytes.length));
  for (const at of offsets) bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(draw() * 8));
  writeFileSync(path, bytes);
  return offsets;
}

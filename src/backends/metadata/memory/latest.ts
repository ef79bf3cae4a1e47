/**
 * The latest rows of a log, as lines of JSON outside of the heap: what is kept there for a while and then dropped costs
 * the collector more than all else that is done to it. A log is written with every request and hardly ever read: a
 * reader sorts what was appended since the last read.
 */
import { SortedMap } from './sorted-map.ts';

const segmentBytes = 256 * 1024;

interface Segment<Value> {
  readonly bytes: Uint8Array;
  used: number;
  lines: number;
  /** The entries that were parsed so far, up to a byte position. */
  readonly entries: (readonly [key: string, value: Value])[];
  read: number;
}

/** Lines are kept at least, unless their segments have more bytes. */
export interface LatestMax {
  readonly lines: number;
  readonly bytes: number;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Latest<Value> {
  readonly #max: LatestMax;
  readonly #entryOf: (line: string) => readonly [key: string, value: Value];
  /** The oldest first. */
  readonly #segments: Segment<Value>[] = [];
  readonly #ordered = new SortedMap<Value>();
  #lines = 0;
  #bytes = 0;

  /** @param entryOf reads what was put */
  constructor(max: LatestMax, entryOf: (line: string) => readonly [key: string, value: Value]) {
    this.#max = max;
    this.#entryOf = entryOf;
  }

  /** @param line without a line break */
  put(line: string): void {
    const last = this.#segments.at(-1);
    if (last === undefined || !append(last, line)) append(this.#grown(line.length), line);
    this.#lines += 1;
    this.#dropOldest();
  }

  #grown(length: number): Segment<Value> {
    const bytes = new Uint8Array(Math.max(segmentBytes, 3 * length + 1));
    const segment = { bytes, used: 0, lines: 0, entries: [], read: 0 };
    this.#segments.push(segment);
    this.#bytes += bytes.length;
    return segment;
  }

  #dropOldest(): void {
    const [oldest, next] = this.#segments;
    if (oldest === undefined || next === undefined) return;
    if (this.#lines - oldest.lines < this.#max.lines && this.#bytes <= this.#max.bytes) return;
    this.#segments.shift();
    this.#lines -= oldest.lines;
    this.#bytes -= oldest.bytes.length;
    // Unless it was put again since.
    for (const [key, value] of oldest.entries)
      if (this.#ordered.get(key) === value) this.#ordered.delete(key);
  }

  /** The latest entry under each key; valid until the next put. */
  get ordered(): SortedMap<Value> {
    for (const segment of this.#segments) if (segment.read < segment.used) this.#read(segment);
    return this.#ordered;
  }

  #read(segment: Segment<Value>): void {
    const lines = decoder.decode(segment.bytes.subarray(segment.read, segment.used - 1)).split('\n');
    for (const entry of lines.map(this.#entryOf)) {
      segment.entries.push(entry);
      this.#ordered.set(...entry);
    }
    segment.read = segment.used;
  }
}

/** @returns false where the segment has no space for it */
function append(segment: Segment<unknown>, line: string): boolean {
  const { read, written } = encoder.encodeInto(`${line}\n`, segment.bytes.subarray(segment.used));
  if (read <= line.length) return false;
  segment.used += written;
  segment.lines += 1;
  return true;
}

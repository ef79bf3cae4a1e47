/**
 * The latest rows of a log, as lines of JSON outside of the heap: what is kept there for a while and then dropped costs
 * the collector more than all else that is done to it. Whoever looks reads all of it and puts it into order: a log is
 * written with every request and hardly ever read.
 */
import { SortedMap } from './sorted-map.ts';

const segmentBytes = 256 * 1024;

interface Segment {
  readonly bytes: Uint8Array;
  used: number;
  lines: number;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Latest<Value> {
  readonly #linesMax: number;
  readonly #entryOf: (line: string) => readonly [key: string, value: Value];
  /** The oldest first. */
  readonly #segments: Segment[] = [];
  #lines = 0;
  #ordered: SortedMap<Value> | undefined;

  /** @param linesMax are kept at least, and at most a segment more. @param entryOf reads what was put */
  constructor(linesMax: number, entryOf: (line: string) => readonly [key: string, value: Value]) {
    this.#linesMax = linesMax;
    this.#entryOf = entryOf;
  }

  /** @param line without a line break */
  put(line: string): void {
    const last = this.#segments.at(-1);
    if (last === undefined || !append(last, line)) append(this.#grown(line.length), line);
    this.#lines += 1;
    this.#ordered = undefined;
    const [oldest] = this.#segments;
    if (oldest !== undefined && this.#lines - oldest.lines >= this.#linesMax) this.#drop(oldest);
  }

  #grown(length: number): Segment {
    const bytes = new Uint8Array(Math.max(segmentBytes, 3 * length + 1));
    const segment = { bytes, used: 0, lines: 0 };
    this.#segments.push(segment);
    return segment;
  }

  #drop({ lines }: Segment): void {
    this.#lines -= lines;
    this.#segments.shift();
  }

  /** What was put last under each key; good until the next is put. */
  get ordered(): SortedMap<Value> {
    if (this.#ordered !== undefined) return this.#ordered;
    const ordered = new SortedMap<Value>();
    for (const { bytes, used } of this.#segments)
      for (const line of decoder.decode(bytes.subarray(0, used - 1)).split('\n')) {
        const [key, value] = this.#entryOf(line);
        ordered.set(key, value);
      }
    this.#ordered = ordered;
    return ordered;
  }
}

/** Whether there was room for it. */
function append(segment: Segment, line: string): boolean {
  const { read, written } = encoder.encodeInto(`${line}\n`, segment.bytes.subarray(segment.used));
  if (read <= line.length) return false;
  segment.used += written;
  segment.lines += 1;
  return true;
}

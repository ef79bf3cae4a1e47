/** An estimate of how full the store is: an exact count would read every directory each time. */
import fs from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Clock } from '../../../ports/clock.ts';
import type { ClusterStatus } from '../../../ports/object-bytes.ts';
import { deadBytes, entryBytes } from './compaction/dead.ts';
import { namesIn } from './large-chunks.ts';
import { type Layout, segmentNames, segmentPath } from './layout.ts';
import { readSummary } from './segments/segment-index.ts';
import type { Current } from './segments/segment-writer.ts';

const freshMs = 60_000;
/** Large files whose size is read; the others are assumed to be like them. */
const samplesMax = 1000;
const fullAt = 0.95;

export const filePool = { pool: 'file', namespace: '' } as const;

export class HealthEstimate {
  readonly #layout: Layout;
  readonly #clock: Clock;
  #last: { readonly at: number; readonly health: Promise<ClusterStatus> } | undefined;

  readonly #current: () => Current | undefined;

  constructor(parts: {
    readonly layout: Layout;
    readonly clock: Clock;
    readonly current: () => Current | undefined;
  }) {
    this.#layout = parts.layout;
    this.#clock = parts.clock;
    this.#current = parts.current;
  }

  get(): Promise<ClusterStatus> {
    const now = this.#clock.elapsed();
    if (!this.#last || now - this.#last.at > freshMs) {
      const health = this.#estimate();
      this.#last = { at: now, health };
      health.catch(() => {
        this.#last = undefined;
      });
    }
    return this.#last.health;
  }

  async #estimate(): Promise<ClusterStatus> {
    const small = this.#small();
    const large = await this.#large();
    const { blocks, bavail } = await statfs(this.#layout.segments);
    const complaints: string[] = [];
    const used = blocks > 0 ? 1 - bavail / blocks : 0;
    if (used > fullAt) complaints.push(`the disk is ${Math.floor(used * 100)} % full`);
    if (small.damaged > 0) complaints.push(`${small.damaged} segments hold unreadable records`);
    const pool = {
      ...filePool,
      state: 'ok',
      bytesUsed: small.bytes + large.bytes,
      chunkCount: small.count + large.count,
    } as const;
    return { status: complaints.length > 0 ? 'warning' : 'ok', complaints, pools: [pool] };
  }

  #small(): { bytes: number; count: number; damaged: number } {
    let bytes = 0;
    let count = 0;
    let damaged = 0;
    const current = this.#current();
    for (const segment of segmentNames(this.#layout)) {
      const stat = fs.statSync(segmentPath(this.#layout, segment, 'seg'), { throwIfNoEntry: false });
      const summary = readSummary(this.#layout, segment);
      bytes += stat?.size ?? 0;
      if (summary?.damaged) damaged++;
      const dead = (deadBytes(this.#layout, segment) - (summary?.deadSeen ?? 0)) / entryBytes;
      // The segments that other processes are writing are not counted.
      const records = segment === current?.segment ? current.records : (summary?.records ?? 0);
      count += Math.max(0, records - dead);
    }
    return { bytes, count, damaged };
  }

  async #large(): Promise<{ bytes: number; count: number }> {
    let count = 0;
    let sampled = 0;
    let sampledBytes = 0;
    for (const group of await namesIn(this.#layout.large)) {
      const names = await namesIn(`${this.#layout.large}/${group}`);
      count += names.length;
      for (const name of names.slice(0, samplesMax - sampled)) {
        const path = `${this.#layout.large}/${group}/${name}`;
        sampledBytes += fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
        sampled++;
      }
    }
    return { count, bytes: sampled > 0 ? Math.round((sampledBytes / sampled) * count) : 0 };
  }
}

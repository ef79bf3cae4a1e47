/** Reads one content after another for a step of the scrub, and classifies read failures. */

import { toHex } from '../../../base/text/hex.ts';
import type { Context } from '../../../context.ts';
import type { Hash } from '../../../ports/crypto/hasher.ts';
import { MetadataDamaged } from '../../../ports/metadata-store.ts';
import type { Extent } from '../../../ports/storage/object-bytes.ts';
import type { ReadFault } from '../fsck/compare/extent-faults.ts';
import type { ScrubBudget } from './budget.ts';
import type { Content } from './content.ts';
import { readOn } from './read-content.ts';
import type { DamagedContent, ScrubCounts, ScrubRun, Within } from './state.ts';

/** Attempts to read a row that changes while its bytes are read. */
const looksMax = 8;

/** The MD5 of the bytes of a content that this process has read, from the beginning and without a gap. */
export interface Digest {
  readonly name: string;
  readonly md5: Hash;
  read: number;
}

export interface ReaderOptions {
  readonly run: ScrubRun;
  readonly budget: ScrubBudget;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
  readonly digest: Digest | undefined;
}

export class ContentReader {
  readonly #context: Pick<Context, 'metadata' | 'bytes' | 'hasher'>;
  readonly #options: ReaderOptions;
  /** The digest of the content in which the budget ended. */
  digest: Digest | undefined;
  readonly seen: { -readonly [Name in keyof ScrubCounts]: number };
  readonly damaged = new Map<string, DamagedContent>();
  /** The reason why something could not be read, by cluster or by name. */
  readonly unread = new Map<string, string>();

  constructor(context: Pick<Context, 'metadata' | 'bytes' | 'hasher'>, options: ReaderOptions) {
    this.#context = context;
    this.#options = options;
    this.digest = options.digest;
    this.seen = { ...options.run.seen };
  }

  /** @returns where it stopped, because the budget is spent; undefined at the end of the content */
  async read(content: Content, within: Within): Promise<Within | undefined> {
    try {
      return await this.#read(content, within);
    } catch (cause) {
      if (!(cause instanceof MetadataDamaged)) throw cause;
      this.passOver('metadata', cause.message);
      return undefined;
    }
  }

  /** Records something that could not be read, which makes this pass incomplete. */
  passOver(what: string, why: string): void {
    this.seen.unread += 1;
    this.unread.set(what, why);
  }

  async #read(content: Content, within: Within): Promise<Within | undefined> {
    const { budget, signal } = this.#options;
    let { read, damagedChunks } = within;
    let digest = this.#digestFor(content, read);
    let looked = content;
    for (let looks = 0; ; ) {
      const got = await readOn(this.#context, looked.extents(), {
        from: read,
        budget,
        signal,
        take: (bytes) => digest?.md5.update(bytes),
        onChunk: () => {
          this.seen.chunks += 1;
        },
        onBytes: (count) => {
          this.seen.bytes += count;
        },
      });
      if (got.ended === 'budget') {
        if (digest !== undefined) this.digest = Object.assign(digest, { read: got.read });
        return { read: got.read, damagedChunks };
      }
      if (got.ended === 'whole') {
        if (digest !== undefined) await this.#compare(looked, digest);
        return undefined;
      }
      // The digest includes a part of the content that failed.
      digest = undefined;
      read = got.read;
      // Read the row again: if it has changed, bytes of its former state may have been deleted correctly.
      const now = await looked.again();
      if (now === undefined) return undefined;
      if (now.revision !== looked.revision && looks < looksMax) {
        looks += 1;
        looked = now;
        continue;
      }
      const { kind, detail } = got.fault;
      if (kind === 'unreadable' || now.revision !== looked.revision) {
        this.passOver(got.extent.cluster, detail);
        budget.end();
        return undefined;
      }
      damagedChunks += 1;
      this.#note(looked, { kind, detail, extent: got.extent, chunks: damagedChunks });
      read = got.next;
    }
  }

  #digestFor({ name, md5 }: Content, read: number): Digest | undefined {
    const former = this.digest;
    this.digest = undefined;
    if (former?.name === name && former.read === read) return former;
    // Not for a store that verifies contents itself, because the ETags may be the store's own (`compares` in `fsck/compare/rows.ts`).
    const isWanted = md5 !== undefined && read === 0 && this.#context.bytes.verifies === undefined;
    return isWanted ? { name, md5: this.#context.hasher.create('md5'), read } : undefined;
  }

  async #compare(content: Content, { md5 }: Digest): Promise<void> {
    if (content.md5 === undefined || toHex(md5.digest()) === content.md5) return;
    const now = await content.again();
    if (now?.md5 !== content.md5) return;
    for await (const extent of now.extents()) {
      const detail = `its content is not what its ETag ${content.md5} says`;
      return this.#note(content, { kind: 'damaged', detail, extent, chunks: 1 });
    }
  }

  #note(
    { name, labels }: Content,
    found: { readonly extent: Extent; readonly chunks: number } & {
      readonly kind: Exclude<ReadFault['kind'], 'unreadable'>;
      readonly detail: string;
    },
  ): void {
    const { budget, now, run } = this.#options;
    const { extent, chunks, kind, detail } = found;
    if (chunks === 1) this.seen.damaged += 1;
    const former = this.damaged.get(name);
    if (former === undefined) budget.listing();
    this.damaged.set(name, {
      ...(former ?? {
        kind,
        detail,
        cluster: extent.cluster,
        extent: extent.id,
        ...labels,
        foundAt: now,
        pass: run.startedAt,
      }),
      chunks,
    });
  }
}

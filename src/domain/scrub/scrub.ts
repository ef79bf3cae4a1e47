/**
 * The scrub: reads every stored byte that a version or a part of an open upload names, so that the store compares each block with its
 * checksum. It does not change what it reads. A step does what its budget allows and returns its position: after a kill, a pass
 * resumes where the last saved step ended.
 */

import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import { bucketSlots, findBucket, nextBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt, readExtents } from '../../metadata/objects/objects.ts';
import { findSession, findSessionPart, scanParts, uploadsIn } from '../../metadata/objects/uploads.ts';
import { nextSound, soundPages } from '../../metadata/sound-rows.ts';
import type { BucketRow, ObjectRow, UploadIndexRow, UploadPart, UploadRow } from '../../metadata/tables.ts';
import type { Hash } from '../../ports/cryptography.ts';
import {
  MetadataDamaged,
  type MetadataStore,
  type Revision,
  type Stored,
} from '../../ports/metadata-store.ts';
import { ChunkMissing, type Extent } from '../../ports/object-bytes.ts';
import { isAhead } from '../common/clock-skew.ts';
import { versionTime } from '../common/ids.ts';
import { type ReadFault, readFault } from '../fsck/bytes.ts';
import { comparableMd5 } from '../fsck/rows.ts';
import { RestingClusters, type ScrubBudget } from './budget.ts';
import type {
  DamagedContent,
  ScrubCounts,
  ScrubPosition,
  ScrubRun,
  Within,
  WithinUpload,
} from './saved-scrub.ts';

type ScrubContext = Pick<Context, 'metadata' | 'bytes' | 'hasher' | 'clock'>;

const pageRows = 100;
const fromItsBeginning = { read: 0, damagedChunks: 0 };

type At<Name extends ScrubPosition['at']> = Extract<ScrubPosition, { at: Name }>;

export interface ScrubStep {
  readonly run: ScrubRun;
  /** Found in this step, by the name of its content. */
  readonly damaged: ReadonlyMap<string, DamagedContent>;
  /** The reason why something could not be read, by cluster or by name. */
  readonly unread: ReadonlyMap<string, string>;
}

interface StepOptions {
  readonly budget: ScrubBudget;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
}

export class Scrub {
  readonly #context: ScrubContext;
  readonly #clusters = new RestingClusters();
  #digest: Digest | undefined;

  constructor(context: ScrubContext) {
    this.#context = context;
  }

  async step(run: ScrubRun, options: StepOptions): Promise<ScrubStep> {
    const clusters = this.#clusters;
    clusters.begin(run.startedAt);
    const reader = new ContentReader(this.#context, { ...options, run, clusters, digest: this.#digest });
    const walk = new Walk(this.#context, { ...options, reader, startedAt: run.startedAt });
    let { position } = run;
    while (position.at !== 'done' && !options.budget.isSpent) position = await walk.on(position);
    this.#digest = reader.digest;
    const { seen, damaged, unread } = reader;
    return { run: { ...run, position, seen: { ...seen } }, damaged, unread };
  }
}

/** Walks from bucket to bucket, and in each over its open uploads and its versions. */
class Walk {
  readonly #context: ScrubContext;
  readonly #reader: ContentReader;
  readonly #budget: ScrubBudget;
  readonly #times: { readonly startedAt: number; readonly now: number };

  constructor(
    context: ScrubContext,
    {
      reader,
      budget,
      startedAt,
      now,
    }: StepOptions & { readonly reader: ContentReader; readonly startedAt: number },
  ) {
    this.#context = context;
    this.#reader = reader;
    this.#budget = budget;
    this.#times = { startedAt, now };
  }

  async on(position: Exclude<ScrubPosition, At<'done'>>): Promise<ScrubPosition> {
    try {
      if (position.at === 'buckets') return await this.#nextBucket(position);
      const { slot, bucket } = position;
      const found = await findBucket(this.#context.metadata, bucket);
      if (found === undefined) return { at: 'buckets', slot, after: bucket };
      return await (position.at === 'uploads'
        ? this.#uploads(found.row, position)
        : this.#versions(found.row, position));
    } catch (cause) {
      if (!(cause instanceof MetadataDamaged)) throw cause;
      this.#skipDamaged(cause);
      if (position.at !== 'buckets') return { at: 'buckets', slot: position.slot, after: position.bucket };
      return position.slot + 1 < bucketSlots ? { at: 'buckets', slot: position.slot + 1 } : { at: 'done' };
    }
  }

  readonly #skipDamaged = ({ message }: MetadataDamaged): void => this.#reader.passOver('metadata', message);

  async #nextBucket(from: At<'buckets'>): Promise<ScrubPosition> {
    this.#budget.row();
    const next = await nextBucket(this.#context.metadata, from, this.#skipDamaged);
    return next === undefined ? { at: 'done' } : { at: 'uploads', slot: next.slot, bucket: next.name };
  }

  async #uploads(bucket: BucketRow, from: At<'uploads'>): Promise<ScrubPosition> {
    const { metadata } = this.#context;
    const rows = metadata.scan(uploadsIn(bucket.id), from.after === undefined ? {} : { after: from.after });
    const page = await nextSound(rows, pageRows, this.#skipDamaged);
    if (page.length === 0) return { at: 'versions', slot: from.slot, bucket: from.bucket };
    let position = from;
    for (const { row } of page) {
      if (this.#budget.isSpent) return position;
      this.#budget.row();
      const within = await this.#upload(bucket, row, position.within);
      const { within: _, ...behind } = position;
      if (within !== undefined) return { ...behind, within };
      position = { ...behind, after: { key: row.key, uploadId: row.uploadId } };
    }
    return position;
  }

  async #upload(
    bucket: BucketRow,
    { key, uploadId, initiated }: UploadIndexRow,
    from: WithinUpload | undefined,
  ): Promise<WithinUpload | undefined> {
    const { metadata } = this.#context;
    if (isNewer(initiated, this.#times)) return undefined;
    const session = (await findSession(metadata, uploadId))?.row.session;
    if (session === undefined || !isOpen(session)) return undefined;
    const within = from?.place.uploadId === uploadId ? from : undefined;
    const place = { key, uploadId };
    const cursor = scanParts(metadata, uploadId, within === undefined ? 0 : within.part - 1);
    for await (const page of soundPages(cursor, pageRows, this.#skipDamaged)) {
      for (const found of page) {
        const { stored, part } = found.row;
        // Parts that the store holds cannot be read before the completion.
        if (stored === undefined || stored.receipt !== undefined || isNewer(stored.modified, this.#times))
          continue;
        const begun = within?.part === part ? within : { place, part, ...fromItsBeginning };
        if (this.#budget.isSpent) return begun;
        this.#budget.row();
        const content = partContent(this.#context, { bucket, key }, { ...found, stored });
        const rest = await this.#reader.read(content, begun);
        if (rest !== undefined) return { place, part, ...rest };
        this.#reader.seen.parts += 1;
      }
    }
    return undefined;
  }

  async #versions(bucket: BucketRow, from: At<'versions'>): Promise<ScrubPosition> {
    const { metadata } = this.#context;
    const rows = metadata.scan(objectsAt(bucket), from.after === undefined ? {} : { after: from.after });
    const page = await nextSound(rows, pageRows, this.#skipDamaged);
    if (page.length === 0) return { at: 'buckets', slot: from.slot, after: from.bucket };
    let position = from;
    for (const found of page) {
      if (this.#budget.isSpent) return position;
      this.#budget.row();
      const { space, key, slot, version, marker } = found.row;
      const place = { space, key, slot };
      const { within, ...behind } = position;
      position = { ...behind, after: place };
      const isBegun = within?.place.key === key && within.place.space === space && within.place.slot === slot;
      // Another version was written since this one was begun.
      const isAnother = isBegun && within.version !== version;
      if (marker || isAnother || isNewer(bytesSince(found.row), this.#times)) continue;
      const content = versionContent(this.#context, bucket, found);
      const rest = await this.#reader.read(content, isBegun ? within : fromItsBeginning);
      if (rest !== undefined) return { ...behind, within: { place, version, ...rest } };
      this.#reader.seen.versions += 1;
    }
    return position;
  }
}

// Reads one content after another for a step of the scrub, and classifies read failures.

/** Attempts to read a row that changes while its bytes are read. */
const looksMax = 8;

/** The MD5 of the bytes of a content that this process has read, from the beginning and without a gap. */
interface Digest {
  readonly name: string;
  readonly md5: Hash;
  read: number;
}

interface ReaderOptions {
  readonly run: ScrubRun;
  readonly budget: ScrubBudget;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
  readonly clusters: RestingClusters;
  readonly digest: Digest | undefined;
}

class ContentReader {
  readonly #context: ScrubContext;
  readonly #options: ReaderOptions;
  /** The digest of the content in which the budget ended. */
  digest: Digest | undefined;
  readonly seen: { -readonly [Name in keyof ScrubCounts]: number };
  readonly damaged = new Map<string, DamagedContent>();
  /** The reason why something could not be read, by cluster or by name. */
  readonly unread = new Map<string, string>();

  constructor(context: ScrubContext, options: ReaderOptions) {
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
    const { budget, signal, clusters } = this.#options;
    let { read, damagedChunks } = within;
    let digest = this.#digestFor(content, read);
    let looked = content;
    for (let looks = 0; ; ) {
      const got = await readOn(this.#context, looked.extents(), {
        from: read,
        budget,
        clusters,
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
      if (got.ended === 'rest') {
        this.passOver(got.cluster, 'its last reads failed');
        return undefined;
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
        const { cluster } = got.extent;
        this.passOver(cluster, detail);
        if (clusters.failed(cluster, this.#context.clock.elapsed())) budget.end();
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
    // Not for a store that verifies contents itself, because the ETags may be the store's own (`compares` in `fsck/rows.ts`).
    const isComparable = md5 !== undefined && read === 0 && this.#context.bytes.verifies === undefined;
    return isComparable ? { name, md5: this.#context.hasher.create('md5'), read } : undefined;
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

// Reads the stored bytes of a version or part from a position, as far as a budget allows.

/** A multiple of the blocks of every store, so that no block is read twice. */
const stepBytes = 1024 * 1024;
/** For a store whose every request costs money. */
const requestBytes = 16 * 1024 * 1024;

/** `read`: the position that was reached; `next`: the beginning of the chunk after a fault; `rest`: the next extent is on a cluster that rests. */
type ReadOn =
  | { readonly ended: 'whole'; readonly read: number }
  | { readonly ended: 'budget'; readonly read: number }
  | { readonly ended: 'rest'; readonly cluster: string }
  | {
      readonly ended: 'fault';
      readonly read: number;
      readonly next: number;
      readonly fault: ReadFault;
      readonly extent: Extent;
    };

interface ReadOnOptions {
  readonly from: number;
  readonly budget: ScrubBudget;
  readonly clusters: RestingClusters;
  readonly signal: AbortSignal;
  /** Gets the bytes in order; an array is valid during the call only. */
  readonly take?: (bytes: Uint8Array) => void;
  /** Called for each chunk that was read to its end. */
  readonly onChunk: () => void;
  readonly onBytes: (count: number) => void;
}

async function readOn(
  { bytes, clock }: Pick<Context, 'bytes' | 'clock'>,
  extents: AsyncIterable<Extent>,
  { from, budget, clusters, signal, take, onChunk, onBytes }: ReadOnOptions,
): Promise<ReadOn> {
  const { pieceBytes } = bytes;
  const step = Number.isFinite(pieceBytes) ? Math.min(stepBytes, pieceBytes) : requestBytes;
  const chunkEnd = (at: number, size: number): number =>
    Number.isFinite(pieceBytes) ? Math.min(size, (Math.floor(at / pieceBytes) + 1) * pieceBytes) : size;
  let begin = 0;
  for await (const extent of extents) {
    for (let at = Math.max(0, from - begin); at < extent.size; ) {
      signal.throwIfAborted();
      const { cluster } = extent;
      if (clusters.isResting(cluster, clock.elapsed())) return { ended: 'rest', cluster };
      if (budget.isSpent) return { ended: 'budget', read: begin + at };
      const endOfChunk = chunkEnd(at, extent.size);
      const end = Math.min(endOfChunk, at + step);
      budget.read(end - at);
      try {
        let got = 0;
        for await (const piece of bytes.read(extent, { start: at, end: end - 1 }, signal)) {
          got += piece.length;
          take?.(piece);
        }
        if (got !== end - at) throw new ChunkMissing(`extent ${extent.id} ends before byte ${end - 1}`);
        onBytes(got);
        clusters.answered(cluster);
      } catch (cause) {
        if (signal.aborted) throw cause;
        const fault = readFault(cause);
        return { ended: 'fault', read: begin + at, next: begin + endOfChunk, fault, extent };
      }
      if (end === endOfChunk) onChunk();
      at = end;
    }
    begin += extent.size;
  }
  return { ended: 'whole', read: begin };
}

// The unit that the scrub reads: a version, or a part of an open upload.

type Ctx = { readonly metadata: MetadataStore };

interface Content {
  /** Unique among all contents. */
  readonly name: string;
  readonly labels: Pick<DamagedContent, 'bucket' | 'bucketId' | 'key' | 'version' | 'uploadId' | 'part'>;
  readonly revision: Revision;
  /** The MD5 of its bytes, where its row has it. */
  readonly md5?: string | undefined;
  extents(): AsyncIterable<Extent>;
  /** Reads its row again; undefined when the row is gone or names other content. */
  again(): Promise<Content | undefined>;
}

/**
 * Whether bytes were stored during the pass: then the next pass reads them, so that writers cannot prolong a pass
 * forever. A time of a clock that was ahead does not show when a row was written.
 */
const isNewer = (
  writtenAt: number,
  { startedAt, now }: { readonly startedAt: number; readonly now: number },
): boolean => writtenAt >= startedAt && !isAhead(writtenAt, now);

/** A time before which none of a version's bytes were stored. */
const bytesSince = ({ uploadId, modified }: ObjectRow): number =>
  uploadId === undefined ? modified : versionTime(uploadId);

function versionContent(ctx: Ctx, bucket: BucketRow, { row, revision }: Stored<ObjectRow>): Content {
  const { space, key, slot, version } = row;
  return {
    name: `${bucket.id}/${version}`,
    labels: { bucket: bucket.name, bucketId: bucket.id, key, version },
    revision,
    md5: comparableMd5(row),
    extents: () => readExtents(ctx.metadata, row.manifest),
    async again() {
      const found = await ctx.metadata.get(objectsAt(bucket), { space, key, slot });
      return found?.row.version === version ? versionContent(ctx, bucket, found) : undefined;
    },
  };
}

interface PartPlace {
  readonly bucket: BucketRow;
  readonly key: string;
}

function partContent(
  ctx: Ctx,
  place: PartPlace,
  { row, revision, stored }: Stored<UploadRow> & { readonly stored: UploadPart },
): Content {
  const { bucket, key } = place;
  const { uploadId, part } = row;
  return {
    name: `${bucket.id}/${uploadId}/${part}`,
    labels: { bucket: bucket.name, bucketId: bucket.id, key, uploadId, part },
    revision,
    async *extents() {
      yield stored.extent;
    },
    async again() {
      const session = (await findSession(ctx.metadata, uploadId))?.row.session;
      if (session === undefined || !isOpen(session)) return undefined;
      const found = await findSessionPart(ctx.metadata, uploadId, part);
      const now = found?.row.stored;
      if (found === undefined || now?.extent.id !== stored.extent.id) return undefined;
      return partContent(ctx, place, { ...found, stored: now });
    },
  };
}

/** Whether the session still owns its parts. */
const isOpen = ({ state }: { readonly state: string }): boolean =>
  state === 'uploading' || state === 'completing';

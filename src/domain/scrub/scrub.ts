/**
 * The scrub: reads every stored byte that a version or a part of an open upload names, so that the store compares each block with its
 * checksum. It does not change what it reads. A step does what its budget allows and returns its position: after a kill, a pass
 * resumes where the last saved step ended.
 */
import type { Context } from '../../context.ts';
import { bucketSlots, findBucket, nextBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { findSession, scanParts, uploadsIn } from '../../metadata/objects/uploads.ts';
import { nextSound, soundPages } from '../../metadata/sound-rows.ts';
import type { BucketRow, UploadIndexRow } from '../../metadata/tables.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import type { ScrubBudget } from './budget.ts';
import {
  bytesSince,
  ContentReader,
  type Digest,
  isNewer,
  isOpen,
  partContent,
  versionContent,
} from './content-reader.ts';
import type { DamagedContent, ScrubPosition, ScrubRun, WithinUpload } from './saved-scrub.ts';

export type ScrubContext = Pick<Context, 'metadata' | 'bytes' | 'hasher'>;

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

export interface StepOptions {
  readonly budget: ScrubBudget;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
}

export class Scrub {
  readonly #context: ScrubContext;
  #digest: Digest | undefined;

  constructor(context: ScrubContext) {
    this.#context = context;
  }

  async step(run: ScrubRun, options: StepOptions): Promise<ScrubStep> {
    const reader = new ContentReader(this.#context, { ...options, run, digest: this.#digest });
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

/**
 * The configurations of a bucket: immutable documents that its row refers to. A change is a new document and one conditional write
 * of the row, so every request that reads the row sees it, in every process. Parsed documents are cached by document id, which never
 * refers to another text.
 */

import type { Awaitable } from '../../base/awaitable.ts';
import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  documentId,
  documentRemovals,
  findBucket,
  readText,
  writeDocument,
} from '../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { type SideChange, StoreUnavailable } from '../../ports/metadata-store.ts';
import { type AuthorizedBucket, changeRow, findAuthorized, openBucket } from '../common/buckets.ts';
import { drawId } from '../common/ids.ts';
import type { Recorder } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';

/** A kind of configuration: its name in the bucket's row, and how its text is read. */
export interface Family<T> {
  readonly name: string;
  readonly parse: (text: string) => T;
  /** Bytes that a parsed document takes in memory, when the length of its text does not determine that. */
  retainedBytes?(value: T): number;
  /** A change fences the commits of object writers that read an older bucket row: they retry with the new row. */
  readonly fencesWriters?: boolean;
}

/** A family whose text is the JSON of its value. */
export const family = <T>(name: string): Family<T> => ({ name, parse: (text) => JSON.parse(text) as T });

/** Limits of the cache of parsed documents, per process. */
const cachedMax = { entries: 16_384, bytes: 24 * 1024 * 1024 } as const;
/** Estimated memory of a parsed JSON text for each of its characters. */
const bytesPerCharacter = 12;
const leastBytes = 512;

interface Cached {
  readonly value: unknown;
  readonly bytes: number;
}

class Documents extends BoundedCache<Cached> {
  constructor() {
    super({
      name: 'documents',
      entriesMax: cachedMax.entries,
      bytes: { max: cachedMax.bytes, sizeOf: ({ bytes }) => bytes },
    });
  }
}

/** Attempts to read a document that is being replaced. */
const looksMax = 8;

/** The configuration of a family; undefined when it is not set. A cached document costs no read. */
export async function readDocument<T>(
  { metadata, caches }: Pick<Context, 'metadata' | 'caches'>,
  bucket: Pick<BucketRow, 'id' | 'name' | 'documents'>,
  { name, parse, retainedBytes }: Family<T>,
): Promise<T | undefined> {
  const cached = caches.of(Documents);
  let { documents } = bucket;
  for (let look = 0; look < looksMax; look += 1) {
    const id = documents[name];
    if (id === undefined) return undefined;
    const known = cached.get(id);
    // The cast is safe: only the family under which the bucket names a document reads it.
    if (known !== undefined) return known.value as T;
    const text = await readText(metadata, id);
    if (text !== undefined) {
      const value = parse(text);
      const bytes = leastBytes + (retainedBytes?.(value) ?? bytesPerCharacter * text.length);
      cached.set(id, { value, bytes });
      return value;
    }
    // The document was replaced after the row was read.
    documents = (await findAuthorized({ metadata }, bucket)).row.documents;
  }
  throw fail('OperationAborted');
}

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

/** Stores the first documents of a bucket before its row. @returns their ids by family */
export async function writeDocuments(
  ctx: Ctx,
  texts: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, string>>> {
  const ids: Record<string, string> = {};
  for (const [name, text] of Object.entries(texts)) {
    const id = documentId(drawId(ctx.random), text);
    await writeDocument(ctx.metadata, id, text);
    ids[name] = id;
  }
  return ids;
}

/** Removes documents that no bucket row refers to. */
export async function dropDocuments(ctx: Ctx, ids: Readonly<Record<string, string>>): Promise<void> {
  for (const id of Object.values(ids)) await ctx.metadata.apply(documentRemovals(id));
}
interface DocumentChange {
  readonly bucket: AuthorizedBucket;
  readonly family: Pick<Family<unknown>, 'name' | 'fencesWriters'>;
  /** The new text; undefined removes the document. */
  readonly text: string | undefined;
  /** Further changes of the row, or the refusal; called with the row that the commit replaces. */
  readonly amend?: (row: BucketRow) => Awaitable<BucketRow>;
  /** The document that this one was derived from: if another one is current, nothing changes. */
  readonly made?: { readonly from: string | undefined };
  /** Side changes that are committed together with the change. */
  readonly then?: readonly SideChange[];
  readonly record?: Recorder | undefined;
}

/**
 * Sets or removes a configuration. Every request that begins after it returns obeys it.
 * @returns false when the document that it was derived from is no longer current
 */
export async function changeDocument(ctx: Ctx, change: DocumentChange): Promise<boolean> {
  const { bucket, family: kind, text, made, amend = (row) => row, then: more = [], record } = change;
  const id = text === undefined ? undefined : documentId(drawId(ctx.random), text);
  if (id !== undefined && text !== undefined) await writeDocument(ctx.metadata, id, text);
  let isStale = false;
  try {
    const changed = await changeRow(ctx, bucket, {
      record,
      async plan(row) {
        const { [kind.name]: former, ...others } = row.documents;
        isStale = made !== undefined && made.from !== former;
        if (isStale || (former === undefined && id === undefined)) return undefined;
        const documents = id === undefined ? others : { ...others, [kind.name]: id };
        const replaced = former === undefined ? [] : documentRemovals(former);
        const generation = row.generation + (kind.fencesWriters === true ? 1 : 0);
        const isRead = former !== undefined && record?.records?.('configuration') === true;
        return {
          row: await amend({ ...row, documents, generation }),
          then: [...replaced, ...more],
          document: { text, former: isRead ? await readText(ctx.metadata, former) : undefined },
        };
      },
    });
    if (changed !== undefined && kind.fencesWriters === true)
      await ctx.metadata.raiseFence(objectsAt(changed.row), changed.row.generation);
    if (changed === undefined) await dropUnnamed(ctx, bucket.name, id);
    return !isStale;
  } catch (cause) {
    // A commit whose outcome is unknown may be applied later: the row would name a missing document. An unnamed one costs only its space.
    if (!(cause instanceof StoreUnavailable)) await dropUnnamed(ctx, bucket.name, id);
    throw cause;
  }
}

interface Revision<T> {
  readonly family: Family<T>;
  /** The new value, undefined to remove it; called again when another writer committed first. Refusals are thrown. */
  revise(value: T | undefined): T | undefined;
  readonly record?: Recorder | undefined;
}

/** Changes a configuration based on its current value, so that no writer's change is lost. */
export const reviseDocument = <T>(
  ctx: Ctx,
  bucket: AuthorizedBucket,
  { family: kind, revise, record }: Revision<T>,
): Promise<void> =>
  // A separate mutex key: each change inside acquires the mutex of the bucket.
  retryInTurn(ctx, `revision ${kind.name} ${bucket.name}`, async () => {
    const row = await openBucket(ctx, bucket.name);
    if (row.id !== bucket.id) throw fail('NoSuchBucket', { elements: { BucketName: bucket.name } });
    const value = revise(await readDocument(ctx, row, kind));
    const text = value === undefined ? undefined : JSON.stringify(value);
    const made = { from: row.documents[kind.name] };
    return (await changeDocument(ctx, { bucket, family: kind, text, made, record }))
      ? { value: undefined }
      : undefined;
  });

/** Removes a document that no row refers to. Not for one whose commit may still be applied. */
async function dropUnnamed(ctx: Ctx, name: string, id: string | undefined): Promise<void> {
  if (id === undefined) return;
  const found = await findBucket(ctx.metadata, name);
  const isNamed = Object.values(found?.row.documents ?? {}).includes(id);
  if (!isNamed) await ctx.metadata.apply(documentRemovals(id));
}

/** Makes a row for one existing upstream object. Safe to repeat: it does not change a key that has a head. */
import type { Context } from '../../../context.ts';
import { findReleased } from '../../../metadata/background/imports.ts';
import { findHead } from '../../../metadata/objects/objects.ts';
import type { BucketRow, Lock, ObjectHeaders, ObjectRow } from '../../../metadata/tables.ts';
import type { Extent, ForeignDetails, ForeignObject } from '../../../ports/storage/object-bytes.ts';
import { changeKey } from '../../objects/commit-version.ts';
import { lockAtWrite } from '../../objects/lock/object-lock.ts';
import { drawId, drawVersion } from '../../objects/version-ids.ts';
import { planNewVersion } from '../../objects/versions.ts';
import { inlineExtents } from '../garbage.ts';

export type Ctx = Pick<Context, 'caches' | 'metadata' | 'bytes' | 'clock' | 'random' | 'config'>;

/**
 * - `imported`: the key had no version and has one now.
 * - `replaced`: the version of an earlier import named a former content of the upstream object; it names the present one now.
 * - `changed`: the same, but the run does not replace; a read of the version is refused.
 * - `present`: the key has a version or a delete marker, which stays as it is.
 * - `released`: a client deleted or replaced the version that an earlier import made from this content.
 * - `skipped`: the object is gone, another gateway stored it, or its key or headers do not fit into a row.
 */
export type ImportResult = 'imported' | 'replaced' | 'changed' | 'present' | 'released' | 'skipped';

export interface ImportOptions {
  readonly bucket: BucketRow;
  readonly cluster: string;
  /** Reads the headers of each object. */
  readonly headers: boolean;
  /** Replaces the version of an earlier import whose upstream object changed since. */
  readonly again: boolean;
  readonly signal: AbortSignal;
}

/** Recorded in place of a request id. */
const requestId = 'import';
/** The same limit as for keys that clients write (public API). */
const keyBytesMax = 1024;
/** Keeps the row of an object small. */
const headerBytesMax = 8192;

const byteLength = (text: string): number => new TextEncoder().encode(text).length;

export async function importObject(
  ctx: Ctx,
  listed: ForeignObject,
  options: ImportOptions,
): Promise<ImportResult> {
  const { bucket, cluster, again, signal } = options;
  const { key } = listed;
  if (key === '' || key.includes('\0') || !key.isWellFormed() || byteLength(key) > keyBytesMax)
    return 'skipped';
  // Check the head before calling the upstream, because in a second run most keys have a version.
  const seen = await findHead(ctx.metadata, bucket, key);
  const standing = standingFor(seen?.row, listed, { cluster, again });
  if (standing !== undefined) return standing;
  const described = options.headers
    ? await ctx.bytes.foreign?.describe(cluster, key, signal)
    : { ...listed, system: {}, user: {} };
  if (described === undefined) return 'skipped';
  // A listing has the time in milliseconds, a header in seconds.
  const details = described.etag === listed.etag ? { ...described, modified: listed.modified } : described;
  const headers = toObjectHeaders(details);
  if (byteLength(JSON.stringify(headers)) > headerBytesMax) return 'skipped';
  return commitImport(ctx, { details, headers }, options);
}

/** The result for a key that has a head; undefined when a row must be created. */
function standingFor(
  head: ObjectRow | undefined,
  { key, etag }: ForeignObject,
  { cluster, again }: Pick<ImportOptions, 'cluster' | 'again'>,
): ImportResult | undefined {
  if (head === undefined) return undefined;
  const own = inlineExtents(head.manifest).find(
    (extent) => extent.cluster === cluster && extent.foreign?.key === key,
  );
  if (own === undefined || own.foreign?.etag === etag) return 'present';
  return again ? undefined : 'changed';
}

async function commitImport(
  ctx: Ctx,
  { details, headers }: { readonly details: ForeignDetails; readonly headers: ObjectHeaders },
  { bucket, cluster, again }: ImportOptions,
): Promise<ImportResult> {
  const { key, size, etag, modified } = details;
  const id = `import-${drawId(ctx.random)}`;
  let result: ImportResult = 'present';
  await changeKey(ctx, {
    bucket,
    key,
    requestId,
    id,
    async decide({ bucket: now, head, oldNull }) {
      const standing = standingFor(head?.row, details, { cluster, again });
      result = standing ?? (head === undefined ? 'imported' : 'replaced');
      if (standing !== undefined) return undefined;
      // Read the release after the head, because one commit removes the version and records the release.
      const released = await findReleased(ctx.metadata, now.id, { key, cluster });
      if (head === undefined && released?.etag === etag) {
        result = 'released';
        return undefined;
      }
      const extent: Extent = { cluster, id, size, foreign: { key, etag } };
      const lock: Lock | undefined = now.objectLock ? await lockAtWrite(ctx, now, undefined) : undefined;
      const fresh = {
        bucketId: now.id,
        key,
        marker: false,
        modified,
        size,
        etag,
        storageClass: now.defaultClass ?? 'STANDARD',
        // The extent names the upstream object, even where that has no bytes.
        manifest: { extents: [extent] },
        headers,
        owner: now.owner,
        requestId,
        conditional: true,
        ...(lock === undefined ? {} : { lock }),
      };
      return planNewVersion(now, head, oldNull, { fresh, version: drawVersion(ctx, head?.row.version) });
    },
  });
  return result;
}

const toObjectHeaders = ({ system, user }: ForeignDetails): ObjectHeaders => ({
  ...(Object.keys(system).length === 0 ? {} : { system }),
  ...(Object.keys(user).length === 0 ? {} : { user }),
});

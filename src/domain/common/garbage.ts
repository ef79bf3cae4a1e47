/** Orphaned bytes: queued by writers, deleted by `gc`. */
import type { Context } from '../../context.ts';
import { queued } from '../../metadata/background/queues.ts';
import { clearManifest, manifestParts } from '../../metadata/objects/objects.ts';
import type { GarbageTask, UploadStep } from '../../metadata/records/queues.ts';
import type { Manifest } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import type { Extent, ObjectBytes, Owner } from '../../ports/object-bytes.ts';

/** The largest number of extents in one queue row, well below the row limit. More extents take several rows. */
export const extentsPerTask = 64;

export interface GarbageOptions {
  /** Names the rows: an op's or a request's id. The extents make it unique. */
  readonly id: string;
  readonly requestId: string;
  /**
   * Store time from which the bytes may be deleted: now for bytes that no read can have begun on, else now +
   * `SVC_GC_GRACE`, so that reads in progress can finish.
   */
  readonly due: number;
  /** Also deletes the `manifests` rows of this id, and the extents that they name unless `extents` is given. */
  readonly manifestId?: string;
}

/**
 * Queues up to `extentsPerTask` extents for deletion, in the commit that removes their owner. Extent ids are never reused, so a
 * task that is queued or executed twice does no harm.
 */
export function queueGarbage(extents: readonly Extent[], options: GarbageOptions): SideChange {
  if (extents.length > extentsPerTask) throw new Error(`${extents.length} extents in one garbage task`);
  const { manifestId, requestId, due } = options;
  const first = extents[0]?.id ?? manifestId ?? '';
  const task: GarbageTask = { extents, ...(manifestId === undefined ? {} : { manifestId }) };
  return queued('gc', first, task, { id: `${options.id}/${first}`, requestId, due });
}

/** Queues an extent that seems to have no owner: `gc` looks for an owner again before it deletes the extent. */
export function queueOrphan(
  extent: Extent,
  { owner, id, requestId, due }: Omit<GarbageOptions, 'manifestId'> & { readonly owner: Owner },
): SideChange {
  const task: GarbageTask = { extents: [extent], owner };
  return queued('gc', extent.id, task, { id: `${id}/${extent.id}`, requestId, due });
}

/** Queues any number of extents, in as many rows as needed. */
export function queueGarbageAll(all: readonly Extent[], options: GarbageOptions): readonly SideChange[] {
  const { manifestId, ...rest } = options;
  // Objects that clients put into the upstream bucket themselves must not be deleted (ADR 15).
  const extents = all.filter(({ foreign: unmanaged }) => unmanaged === undefined);
  const changes: SideChange[] = [];
  for (let start = 0; start < extents.length; start += extentsPerTask) {
    changes.push(queueGarbage(extents.slice(start, start + extentsPerTask), rest));
  }
  if (manifestId !== undefined) changes.push(queueGarbage([], options));
  return changes;
}

/**
 * Queues a multipart session to be settled: an interrupted completion is finished or undone, an ended session is cleared. Queueing it
 * again is harmless, because settling is idempotent.
 *
 * The name of the row includes the purpose: settling may queue the clearing in the same millisecond in which it was due itself, and
 * under one name the new row would be removed together with the one that is being finished.
 */
export function queueUpload(
  uploadId: string,
  { to, ...options }: { readonly to: UploadStep; readonly requestId: string; readonly due: number },
): SideChange {
  const task: GarbageTask = { extents: [], uploadId, to };
  return queued('gc', uploadId, task, { id: `${uploadId}/${to}`, ...options });
}

/** Queues the open uploads of a bucket, for the commit that removes the bucket. */
export function queueUploadsOf(
  bucketId: string,
  options: { readonly requestId: string; readonly due: number },
): SideChange {
  const task: GarbageTask = { extents: [], bucketId };
  return queued('gc', bucketId, task, { id: `${bucketId}/uploads`, ...options });
}

/** Queues all extents and rows that a manifest names. A manifest without bytes (a delete marker's) queues nothing. */
export function queueManifest(
  manifest: Manifest,
  options: Omit<GarbageOptions, 'manifestId'>,
): readonly SideChange[] {
  if ('manifestId' in manifest)
    return [queueGarbage(inlineExtents(manifest), { ...options, manifestId: manifest.manifestId })];
  return queueGarbageAll(inlineExtents(manifest), options);
}

/** The extents that a manifest names itself; the others are in its `manifests` rows. */
export function inlineExtents(manifest: Manifest): readonly Extent[] {
  if ('extents' in manifest) return manifest.extents;
  if (manifest.whole !== undefined) return [manifest.whole];
  return 'parts' in manifest ? manifest.parts.map((part) => part.extent) : [];
}

/**
 * Deletes the bytes and the manifest that a task names. It can be repeated from any point: bytes are deleted before the rows that name
 * them, and missing bytes are not an error. Throws when bytes could not be removed or the signal aborts.
 */
export async function deleteGarbage(
  { metadata, bytes }: Pick<Context, 'metadata'> & { readonly bytes: Pick<ObjectBytes, 'remove'> },
  task: GarbageTask,
  signal: AbortSignal,
): Promise<void> {
  if (task.extents.length > 0) await bytes.remove(task.extents);
  if (task.manifestId === undefined) return;
  if (task.extents.length === 0) {
    for await (const parts of manifestParts(metadata, task.manifestId)) {
      signal.throwIfAborted();
      await bytes.remove(parts.map((part) => part.extent));
    }
  }
  await clearManifest(metadata, task.manifestId);
}

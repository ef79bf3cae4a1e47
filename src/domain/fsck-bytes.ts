/** fsck from the bytes to the rows: whatever is stored has an owner, or somebody who is going to delete it. */
import { manifestParts } from '../metadata/objects.ts';
import type { GarbageTask } from '../metadata/queue-tables.ts';
import { allRows, queueSlots } from '../metadata/queues.ts';
import type { Abandoned } from '../ports/metadata-store.ts';
import type { FoundExtent } from '../ports/object-bytes.ts';
import type { FsckRun } from './fsck-findings.ts';
import { isOwned, type Ownership, openOwnership } from './ownership.ts';

/** Extents without an owner that are looked up in the deletion queue together. */
const suspectsMax = 10_000;

export async function checkStored(run: FsckRun, cluster: string): Promise<void> {
  const ownership = await openOwnership(run);
  const suspects = new Map<string, FoundExtent>();
  for await (const found of run.bytes.find(cluster, '')) {
    run.signal.throwIfAborted();
    run.count('stored');
    if (await isOwned(run, ownership, found)) continue;
    suspects.set(found.extent.id, found);
    if (suspects.size < suspectsMax) continue;
    await clear(run, suspects);
  }
  await clear(run, suspects);
}

/** Goes through the suspects: only those that nobody is going to delete are findings. */
async function clear(run: FsckRun, suspects: Map<string, FoundExtent>): Promise<void> {
  if (suspects.size === 0) return;
  // Rows are queued in the commit that takes the owner away, so the queue is looked at after the owner.
  for await (const id of queuedExtents(run)) if (suspects.delete(id)) run.count('leaving');
  const abandoned = await run.metadata.abandoned();
  // Buckets may have come since the first look.
  const ownership = await openOwnership(run);
  for (const found of suspects.values()) await judge(run, found, { abandoned, ownership });
  suspects.clear();
}

async function judge(
  run: FsckRun,
  found: FoundExtent,
  { abandoned, ownership }: { readonly abandoned: readonly Abandoned[]; readonly ownership: Ownership },
): Promise<void> {
  const { extent, owner } = found;
  // The sweep examines these next. Chunks are named `<extent>.<n>`, and a prefix may name one extent whole.
  if (abandoned.some(({ prefix }) => `${extent.id}.`.startsWith(prefix))) return run.count('leaving');
  // A write that was open at the first look may have found its owner, or gc may have been here.
  if (await isOwned(run, ownership, found)) return;
  if (!(await isStored(run, found))) return;
  const { key, uploadId, part } = owner;
  await run.find({
    kind: 'unowned',
    detail: 'no row owns it; unless it is being written right now, nothing will ever delete it',
    cluster: extent.cluster,
    extent: extent.id,
    key,
    ...(uploadId === undefined ? {} : { uploadId }),
    ...(part === undefined ? {} : { part }),
  });
}

async function isStored({ bytes }: FsckRun, { extent }: FoundExtent): Promise<boolean> {
  for await (const again of bytes.find(extent.cluster, `${extent.id}.`)) {
    if (again.extent.id === extent.id) return true;
  }
  return false;
}

/** Everything that waits to be deleted, due or not. */
async function* queuedExtents({ metadata }: FsckRun): AsyncGenerator<string> {
  for (let slot = 0; slot < queueSlots; slot += 1) {
    const cursor = allRows(metadata, 'gc', slot);
    for (let page = await cursor.next(100); page.length > 0; page = await cursor.next(100)) {
      for (const { row } of page) {
        const { extents, manifestId } = row.task as GarbageTask;
        for (const { id } of extents) yield id;
        if (manifestId === undefined) continue;
        for await (const parts of manifestParts(metadata, manifestId)) {
          for (const part of parts) yield part.extent.id;
        }
      }
    }
  }
}

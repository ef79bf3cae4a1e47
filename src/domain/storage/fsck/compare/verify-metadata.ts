/** fsck on the metadata itself: reads every row and compares it with its checksum, before the other checks use the rows. */
import { everyBucket, findBucket } from '../../../../metadata/buckets/buckets.ts';
import { tables } from '../../../../metadata/tables.ts';
import { MetadataDamaged, type MetadataFault } from '../../../../ports/metadata-store.ts';
import type { FsckRun } from '../findings.ts';

/** The largest number of reported faults. An overwritten file may have one for each row. */
const reportedMax = 10_000;

export async function verifyMetadata(run: FsckRun): Promise<void> {
  const faults: MetadataFault[] = [];
  for await (const found of run.metadata.verify?.(Object.values(tables)) ?? []) {
    run.signal.throwIfAborted();
    faults.push(...found.slice(0, reportedMax - faults.length));
  }
  if (faults.length === 0) return;
  const names = await bucketNames(run);
  for (const { detail, table, row, columns } of faults) {
    const bucket = names.get(String(columns?.['bucketId'] ?? ''));
    const key = columns?.['key'];
    await run.find({
      kind: 'metadata',
      detail,
      ...(table === undefined ? {} : { table }),
      ...(row === undefined ? {} : { row }),
      ...(bucket === undefined ? {} : { bucket }),
      ...(typeof key === 'string' ? { key } : {}),
    });
  }
}

/** The names of the buckets by their ids, as far as their own rows can be read. */
async function bucketNames({ metadata }: FsckRun): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  try {
    for await (const name of everyBucket(metadata)) {
      const found = await findBucket(metadata, name).catch(nothingIfDamaged);
      if (found !== undefined) names.set(found.row.id, name);
    }
  } catch (cause) {
    nothingIfDamaged(cause);
  }
  return names;
}

function nothingIfDamaged(cause: unknown): undefined {
  if (!(cause instanceof MetadataDamaged)) throw cause;
  return undefined;
}

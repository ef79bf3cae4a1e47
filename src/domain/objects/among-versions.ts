/** Looking for something among all versions of a key, while writers move them about. */
import type { Context } from '../../context.ts';
import { liveHeadOf, markerHeadOf, objectsOf, versionsOf } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';

/** How often the versions of a key are read again because they moved meanwhile. */
const attemptsMax = 16;
const pageRows = 200;

/**
 * The first version that matches, wherever it stands. Versions move between head and history, both ways,
 * while we look. Every such move changes the head, so an answer of "none" counts only if the head stood
 * still from before the first read to after the last.
 */
export async function findAmongVersions(
  { metadata }: Pick<Context, 'metadata'>,
  bucket: Pick<BucketRow, 'id' | 'shards' | 'generation'>,
  key: string,
  matches: (row: ObjectRow) => boolean | Promise<boolean>,
): Promise<ObjectRow | undefined> {
  const at = objectsOf(bucket);
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const before = await metadata.get(at, liveHeadOf(key));
    const markerBefore = await metadata.get(at, markerHeadOf(key));
    if (before !== undefined && (await matches(before.row))) return before.row;
    const history = versionsOf(metadata, bucket, key);
    for (let page = await history.next(pageRows); page.length > 0; page = await history.next(pageRows)) {
      for (const { row } of page) if (await matches(row)) return row;
    }
    const after = await metadata.get(at, liveHeadOf(key));
    const markerAfter = await metadata.get(at, markerHeadOf(key));
    const isStill = before?.revision === after?.revision && markerBefore?.revision === markerAfter?.revision;
    if (isStill) return undefined;
  }
  throw new Error(`the versions of ${key} in bucket ${bucket.id} never stood still`);
}

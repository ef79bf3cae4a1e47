/**
 * Searches all versions of a key while writers move them. "No version matches" is a proof: that bytes have no owner
 * (`ownership.ts`), that a completion was not committed (`complete-upload.ts`), or that an object does not have the
 * bytes of parts (`part-counts.ts`). The caller deletes, undoes or uncounts something because of it.
 */
import type { Awaitable } from '../../base/awaitable.ts';
import type { Context } from '../../context.ts';
import { liveHeadAt, markerHeadAt, objectsAt, scanVersions } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';

/** Attempts to read the versions of a key while they move. */
const attemptsMax = 16;
const pageRows = 200;

/**
 * Writers changed the key during each attempt, so nothing is known about it now. A tenant can make that last, so work on many keys must
 * continue with the others.
 */
export class KeyChanging extends Error {}

/**
 * The first version that matches, in the live space or the history. Versions may move between the two during the search, in both
 * directions. Every such move changes the head, so "none" is an answer only if the head did not change between the first read
 * and the last.
 * @throws KeyChanging
 */
export async function findAmongVersions(
  { metadata }: Pick<Context, 'metadata'>,
  bucket: Pick<BucketRow, 'id' | 'shards' | 'generation'>,
  key: string,
  matches: (row: ObjectRow) => Awaitable<boolean>,
): Promise<ObjectRow | undefined> {
  const at = objectsAt(bucket);
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const before = await metadata.get(at, liveHeadAt(key));
    const markerBefore = await metadata.get(at, markerHeadAt(key));
    if (before !== undefined && (await matches(before.row))) return before.row;
    const history = scanVersions(metadata, bucket, key);
    for (let page = await history.next(pageRows); page.length > 0; page = await history.next(pageRows)) {
      for (const { row } of page) if (await matches(row)) return row;
    }
    const after = await metadata.get(at, liveHeadAt(key));
    const markerAfter = await metadata.get(at, markerHeadAt(key));
    const isStill = before?.revision === after?.revision && markerBefore?.revision === markerAfter?.revision;
    if (isStill) return undefined;
  }
  throw new KeyChanging(`the versions of ${key} in bucket ${bucket.id} never stood still`);
}

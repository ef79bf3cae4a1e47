/** Indexes the versions and uploads that a bucket had before its age index, a page at a time. */

import { ageChanges, putAge, uploadAge } from '../../metadata/objects/ages.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { uploadsIn } from '../../metadata/objects/uploads.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Indexing } from './progress.ts';

const pageRows = 500;
const columns = ['version', 'marker', 'modified', 'restore', 'noncurrentSince'] as const;

type Metadata = Pick<MetadataStore, 'scan' | 'apply' | 'raiseFence'>;

/**
 * One page. Entries of versions that are deleted meanwhile stay in the index; the worker removes them when they are due.
 * @returns the position behind it
 */
export async function indexPage(metadata: Metadata, bucket: BucketRow, at: Indexing): Promise<Indexing> {
  if (at.at === 'done') return at;
  if (at.at === 'uploads') return indexUploads(metadata, bucket, at);
  // Writers that do not index yet hold an older row of the bucket: their commits are refused from now on.
  if (at.after === undefined) await metadata.raiseFence(objectsAt(bucket), bucket.generation);
  const range = at.after === undefined ? {} : { after: at.after };
  const page = await metadata.scan(objectsAt(bucket), { ...range, columns }).next(pageRows);
  const last = page.at(-1)?.row;
  if (last === undefined) return { at: 'uploads' };
  // The cast is safe: entries are made of the columns that were read.
  const after = page.map(({ row }) => row as unknown as ObjectRow);
  await metadata.apply(ageChanges(bucket, { before: [], after }));
  return { at: 'objects', after: { space: last.space, key: last.key, slot: last.slot } };
}

async function indexUploads(
  metadata: Metadata,
  bucket: BucketRow,
  { after }: Extract<Indexing, { readonly at: 'uploads' }>,
): Promise<Indexing> {
  const page = await metadata.scan(uploadsIn(bucket.id), after === undefined ? {} : { after }).next(pageRows);
  const last = page.at(-1)?.row;
  if (last === undefined) return { at: 'done' };
  await metadata.apply(page.map(({ row }) => putAge(uploadAge(row.uploadId, row))));
  return { at: 'uploads', after: { key: last.key, uploadId: last.uploadId } };
}

/** The storage class of a write, by either of its names (design §7.6). */
import { wireClassOf } from '../../config/storage-classes.ts';
import { fail } from '../../errors/refusal.ts';
import { type BucketCall, header } from '../call.ts';

/** The class that a write asks for; else the default of its bucket (spec "Resources", `DefaultClass`). */
export function storageClassOf(call: BucketCall): string {
  const raw = header(call, 'storage-class');
  if (raw === undefined || raw === '') return call.bucket.defaultClass ?? 'STANDARD';
  const name = wireClassOf(raw);
  if (name === undefined) throw fail('InvalidStorageClass', { elements: { StorageClassRequested: raw } });
  return name;
}

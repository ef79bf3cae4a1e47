/** The storage class of a write, by either of its names. */
import { toWireClass } from '../../../config/values/storage-classes.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import { header } from '../../common/own-headers.ts';

/** The storage class of a write; the default of its bucket if the request names none. */
export function readStorageClass(request: AuthorizedInBucket): string {
  const raw = header(request, 'storage-class');
  if (raw === undefined || raw === '') return request.bucket.defaultClass ?? 'STANDARD';
  const name = toWireClass(raw);
  if (name === undefined) throw fail('InvalidStorageClass', { elements: { StorageClassRequested: raw } });
  return name;
}

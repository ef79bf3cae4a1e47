/** The upload and part that a request names. */
import { partNumberMax } from '../../domain/uploads/part-list.ts';
import type { UploadName } from '../../domain/uploads/upload-session.ts';
import { fail } from '../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../gateway/request.ts';

export const readUploadName = ({ bucket, key, query }: AuthorizedInBucket): UploadName => ({
  bucket,
  key,
  uploadId: query.get('uploadId') ?? '',
});

/** @throws InvalidArgument outside 1…10000 */
export function readPartNumber({ query }: AuthorizedInBucket): number {
  const raw = query.get('partNumber') ?? '';
  const number = /^\d{1,5}$/.test(raw) ? Number(raw) : 0;
  if (number >= 1 && number <= partNumberMax) return number;
  throw fail('InvalidArgument', {
    message: `Part number must be an integer between 1 and ${partNumberMax}, inclusive`,
    elements: { ArgumentName: 'partNumber', ArgumentValue: raw },
  });
}

/** Replies of CopyObject and UploadPartCopy. */
import { date, element, type Infer, optional, token } from '../../formats/codec.ts';
import { checksumFields, checksumType } from '../common.ts';

export const copyObjectResult = element({
  LastModified: date,
  ETag: token,
  ChecksumType: optional(checksumType),
  ...checksumFields,
});
export type CopyObjectResult = Infer<typeof copyObjectResult>;

export const copyPartResult = element({ LastModified: date, ETag: token, ...checksumFields });
export type CopyPartResult = Infer<typeof copyPartResult>;

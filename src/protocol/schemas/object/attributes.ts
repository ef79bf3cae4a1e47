/** The reply of GetObjectAttributes: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html */
import { bool, element, type Infer, int, many, optional, token } from '../../formats/codec.ts';
import { checksumFields, checksumType } from '../common.ts';

const objectPart = element({ PartNumber: int(), Size: int({ min: 0 }), ...checksumFields });
export type ObjectPart = Infer<typeof objectPart>;

const objectParts = element({
  /** SDKs call it TotalPartsCount. */
  PartsCount: optional(int({ min: 0 })),
  PartNumberMarker: optional(int({ min: 0 })),
  NextPartNumberMarker: optional(int({ min: 0 })),
  MaxParts: optional(int({ min: 0 })),
  IsTruncated: optional(bool),
  Part: many(objectPart, { max: 1000 }),
});

/** Root `GetObjectAttributesResponse`. The ETag has no quotes here. */
export const getObjectAttributesResponse = element({
  ETag: optional(token),
  Checksum: optional(element({ ...checksumFields, ChecksumType: optional(checksumType) })),
  ObjectParts: optional(objectParts),
  StorageClass: optional(token),
  ObjectSize: optional(int({ min: 0 })),
});
export type GetObjectAttributesResponse = Infer<typeof getObjectAttributesResponse>;

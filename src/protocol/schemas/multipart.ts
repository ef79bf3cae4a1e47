/** Bodies of the multipart operations. */
import { bool, date, element, type Infer, int, many, optional, text, token } from '../formats/codec.ts';
import type { XmlLimits } from '../formats/xml-parse.ts';
import {
  checksumAlgorithm,
  checksumFields,
  checksumType,
  commonPrefixes,
  encodingType,
  listingPageMax,
  owner,
} from './common.ts';

const partsMax = 10_000;

export const initiateMultipartUploadResult = element({ Bucket: token, Key: optional(text), UploadId: token });

/** The range of a part number is the handler's to check: its error is `InvalidPart`. Clients add sizes and dates. */
const completedPart = element({ PartNumber: int(), ETag: token, ...checksumFields }, { unknown: 'ignore' });
export type CompletedPart = Infer<typeof completedPart>;

/** Every part with its number, ETag, five checksums and two elements that clients add; then the root. */
export const completeMultipartUploadLimits: XmlLimits = {
  maxBytes: 4 * 1024 * 1024,
  elementsMax: partsMax * 10 + 1,
};

/** Root `CompleteMultipartUpload`. */
export const completeMultipartUpload = element(
  { Part: many(completedPart, { min: 1, max: partsMax }) },
  { unknown: 'ignore' },
);

export const completeMultipartUploadResult = element({
  Location: text,
  Bucket: token,
  Key: optional(text),
  ETag: token,
  ...checksumFields,
  ChecksumType: optional(checksumType),
});

const listedPart = element({
  PartNumber: int(),
  LastModified: date,
  ETag: token,
  Size: int({ min: 0 }),
  ...checksumFields,
});

export const listPartsResult = element({
  Bucket: token,
  Key: optional(text),
  UploadId: token,
  Initiator: optional(owner),
  Owner: optional(owner),
  StorageClass: optional(token),
  ChecksumAlgorithm: optional(checksumAlgorithm),
  ChecksumType: optional(checksumType),
  PartNumberMarker: int({ min: 0 }),
  NextPartNumberMarker: optional(int({ min: 0 })),
  MaxParts: int({ min: 0 }),
  IsTruncated: bool,
  Part: many(listedPart, { max: listingPageMax }),
});
export type ListPartsResult = Infer<typeof listPartsResult>;

const listedUpload = element({
  Key: text,
  UploadId: token,
  Initiator: optional(owner),
  Owner: optional(owner),
  StorageClass: optional(token),
  Initiated: date,
  ChecksumAlgorithm: optional(checksumAlgorithm),
  ChecksumType: optional(checksumType),
});

export const listMultipartUploadsResult = element({
  Bucket: token,
  KeyMarker: text,
  UploadIdMarker: text,
  NextKeyMarker: optional(text),
  NextUploadIdMarker: optional(text),
  Prefix: optional(text),
  Delimiter: optional(text),
  EncodingType: optional(encodingType),
  MaxUploads: int({ min: 0 }),
  IsTruncated: bool,
  Upload: many(listedUpload, { max: listingPageMax }),
  CommonPrefixes: commonPrefixes,
});

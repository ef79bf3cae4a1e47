/**
 * Replies of ListObjects, ListObjectsV2 and ListObjectVersions. With `encoding-type=url` the caller encodes keys,
 * prefixes, delimiter and markers before it writes them.
 */
import {
  bool,
  choice,
  date,
  element,
  entityTag,
  type Infer,
  int,
  many,
  optional,
  text,
  token,
} from '../formats/codec.ts';
import {
  checksumAlgorithm,
  checksumType,
  commonPrefixes,
  encodingType,
  listingPageMax,
  owner,
} from './common.ts';

/** The fields about an object's content in every listing. */
const described = {
  LastModified: date,
  ETag: entityTag,
  ChecksumAlgorithm: many(checksumAlgorithm, { max: 5 }),
  ChecksumType: optional(checksumType),
  Size: int({ min: 0 }),
  StorageClass: optional(token),
  Owner: optional(owner),
  RestoreStatus: optional(
    element({ IsRestoreInProgress: optional(bool), RestoreExpiryDate: optional(date) }),
  ),
};

const contents = element({ Key: text, ...described });
export type ListedObject = Infer<typeof contents>;

const page = {
  MaxKeys: int({ min: 0 }),
  Delimiter: optional(text),
  EncodingType: optional(encodingType),
  IsTruncated: bool,
};

/** Root `ListBucketResult`, version 1. */
export const listObjectsResult = element({
  Name: token,
  Prefix: text,
  Marker: text,
  NextMarker: optional(text),
  ...page,
  Contents: many(contents, { max: listingPageMax }),
  CommonPrefixes: commonPrefixes,
});

/** Root `ListBucketResult`, version 2. */
export const listObjectsV2Result = element({
  Name: token,
  Prefix: text,
  StartAfter: optional(text),
  ContinuationToken: optional(text),
  NextContinuationToken: optional(text),
  KeyCount: int({ min: 0 }),
  ...page,
  Contents: many(contents, { max: listingPageMax }),
  CommonPrefixes: commonPrefixes,
});

const version = element({ Key: text, VersionId: token, IsLatest: bool, ...described });

const deleteMarker = element({
  Key: text,
  VersionId: token,
  IsLatest: bool,
  LastModified: date,
  Owner: optional(owner),
});

/** Root `ListVersionsResult`. Versions and delete markers are in one order: by key, the newest first. */
export const listVersionsResult = element({
  Name: token,
  Prefix: text,
  KeyMarker: text,
  VersionIdMarker: text,
  NextKeyMarker: optional(text),
  NextVersionIdMarker: optional(text),
  ...page,
  entries: choice({ Version: version, DeleteMarker: deleteMarker }, { max: listingPageMax }),
  CommonPrefixes: commonPrefixes,
});

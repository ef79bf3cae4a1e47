/** Bodies about objects: attributes, copies, DeleteObjects, forms, restores, tags. */
import {
  bool,
  date,
  element,
  type Infer,
  int,
  limitedByHandler,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../formats/codec.ts';
import type { XmlLimits } from '../formats/xml-parse.ts';
import { checksumFields, checksumType, configuration, listingPageMax } from './common.ts';

const objectPart = element({ PartNumber: int(), Size: int({ min: 0 }), ...checksumFields });

const objectParts = element({
  /** SDKs call it TotalPartsCount. */
  PartsCount: optional(int({ min: 0 })),
  PartNumberMarker: optional(int({ min: 0 })),
  NextPartNumberMarker: optional(int({ min: 0 })),
  MaxParts: optional(int({ min: 0 })),
  IsTruncated: optional(bool),
  Part: many(objectPart, { max: listingPageMax }),
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

// Replies of CopyObject and UploadPartCopy.

export const copyObjectResult = element({
  LastModified: date,
  ETag: token,
  ChecksumType: optional(checksumType),
  ...checksumFields,
});

export const copyPartResult = element({ LastModified: date, ETag: token, ...checksumFields });

// Bodies of DeleteObjects: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html

/** ETag, LastModifiedTime and Size are conditions: an element that we do not know might be one too, so it is refused. */
const objectToDelete = element({
  Key: text,
  VersionId: optional(token),
  ETag: optional(token),
  /** SDKs send the HTTP form, which has whole seconds: compare seconds. */
  LastModifiedTime: optional(date),
  Size: optional(int({ min: 0 })),
});
export type ObjectToDelete = Infer<typeof objectToDelete>;

const objectsMax = 1000;
/** Every object with each of its elements, then `Quiet` and the root. */
export const deleteRequestLimits: XmlLimits = {
  maxBytes: 4 * 1024 * 1024,
  elementsMax: objectsMax * 6 + 2,
};

/** Root `Delete`. */
export const deleteRequest = element({
  Quiet: optional(bool),
  Object: many(objectToDelete, { min: 1, max: objectsMax }),
});
export type DeleteRequest = Infer<typeof deleteRequest>;

const deleted = element({
  Key: text,
  VersionId: optional(token),
  DeleteMarker: optional(bool),
  DeleteMarkerVersionId: optional(token),
});
export type DeletedObject = Infer<typeof deleted>;

const deleteError = element({ Key: text, VersionId: optional(token), Code: token, Message: text });
export type DeleteError = Infer<typeof deleteError>;

/** Root `DeleteResult`. */
export const deleteResult = element({
  Deleted: many(deleted, { max: objectsMax }),
  Error: many(deleteError, { max: objectsMax }),
});

// The reply to a form that asks for status 201 (public API "POST Object"), written without a namespace.

export const postResponse = element({ Location: text, Bucket: token, Key: text, ETag: token });

// The body of RestoreObject: https://docs.aws.amazon.com/AmazonS3/latest/API/API_RestoreObject.html

const tier = oneOf('Standard', 'Bulk', 'Expedited');
const anything = element({}, { unknown: 'ignore' });

/** Root `RestoreRequest`. What belongs to Select is read so that a handler can say that there is none. */
export const restoreRequest = element({
  Days: optional(int()),
  GlacierJobParameters: optional(element({ Tier: tier })),
  Type: optional(token),
  Tier: optional(tier),
  Description: optional(text),
  SelectParameters: optional(anything),
  OutputLocation: optional(anything),
});

// The body of the tagging operations of buckets and objects.

export const tag = element({ Key: text, Value: text });

/** The handlers check the number of tags, with the error of a bucket or an object. */
export const tagging = configuration(
  'tagging',
  'Tagging',
  element({ TagSet: many(tag, { name: 'Tag', ...limitedByHandler }) }),
);

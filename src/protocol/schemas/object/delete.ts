/** Bodies of DeleteObjects: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html */

import { bool, date, element, type Infer, int, many, optional, text, token } from '../../formats/codec.ts';
import type { XmlLimits } from '../../formats/xml-parse.ts';

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
  Deleted: many(deleted, { max: 1000 }),
  Error: many(deleteError, { max: 1000 }),
});
export type DeleteResult = Infer<typeof deleteResult>;

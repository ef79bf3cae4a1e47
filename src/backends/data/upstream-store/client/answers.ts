/** The XML answers of an upstream, as far as this gateway reads them. */
import {
  bool,
  element,
  int,
  many,
  optional,
  readXml,
  text,
  token,
  type Xml,
} from '../../../../protocol/formats/codec.ts';
import { UpstreamError } from './upstream-error.ts';

/** Services add elements of their own. */
const lax = { unknown: 'ignore' } as const;
const pageMax = 1000;
/** An object of a listing has about ten elements. */
export const answerLimits = { maxBytes: 4 * 1024 * 1024, elementsMax: pageMax * 20 } as const;

export const error = element({ Code: token, Message: optional(text) }, lax);

export const listing = element(
  {
    IsTruncated: bool,
    NextContinuationToken: optional(text),
    Contents: many(element({ Key: text, Size: int({ min: 0 }) }, lax), { max: pageMax }),
  },
  lax,
);

export const foreignListing = element(
  {
    IsTruncated: bool,
    EncodingType: optional(token),
    Contents: many(
      element(
        {
          Key: text,
          Size: int({ min: 0 }),
          ETag: optional(text),
          LastModified: optional(token),
          StorageClass: optional(token),
        },
        lax,
      ),
      { max: pageMax },
    ),
  },
  lax,
);

export const uploadListing = element(
  {
    IsTruncated: bool,
    NextKeyMarker: optional(text),
    NextUploadIdMarker: optional(text),
    Upload: many(element({ Key: text, UploadId: token }, lax), { max: pageMax }),
  },
  lax,
);

export const begunUpload = element({ UploadId: token }, lax);

/** @throws UpstreamError where the body is not that: the request was sound, the answer is malformed */
export function readAnswer<T>(schema: Xml<T>, rootName: string, body: Uint8Array): T {
  try {
    return readXml(schema, rootName, body, answerLimits);
  } catch (cause) {
    throw new UpstreamError(`the upstream answered something else than ${rootName}`, { status: 200, cause });
  }
}

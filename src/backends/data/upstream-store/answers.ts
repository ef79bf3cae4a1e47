/** The XML answers of an upstream, as far as this gateway reads them. */

import { amz } from '../../../protocol/dialect.ts';
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
} from '../../../protocol/formats/codec.ts';

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

export const unmanagedListing = element(
  {
    IsTruncated: bool,
    EncodingType: optional(token),
    NextContinuationToken: optional(text),
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

// What the ETag of an answer says about the stored content.

type Headers = Readonly<Record<string, string>>;

const encryption = `${amz.headerPrefix}server-side-encryption`;

/** Without quotes; '' where there is none. */
export const etagIn = (headers: Headers): string => headers['etag']?.replaceAll('"', '') ?? '';

/** @throws UpstreamError where there is none: something else than an S3 service has answered, such as a proxy */
export function requireEtag(headers: Headers, what: string): string {
  const etag = etagIn(headers);
  if (etag === '') throw new UpstreamError(`${what} was answered by a success without an ETag`);
  return etag;
}

/** How the upstream encrypts what it stores, which determines its ETags. '' where it does not say. */
export const encryptionIn = (headers: Headers): string => headers[encryption] ?? '';

/** The ETag of an object that the upstream encrypts with a KMS or customer key says nothing about the content. */
export const isMd5 = (etag: string, headers: Headers): boolean =>
  /^[0-9a-f]{32}$/.test(etag) &&
  !encryptionIn(headers).startsWith('aws:kms') &&
  headers[`${encryption}-customer-algorithm`] === undefined;

/** An upstream's error answer, or the lack of any answer. */
export class UpstreamError extends Error {
  /** 0 where there was no answer. */
  readonly status: number;
  readonly code: string;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    about: {
      readonly status?: number;
      readonly code?: string;
      readonly retryAfterMs?: number | undefined;
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, about.cause === undefined ? undefined : { cause: about.cause });
    this.status = about.status ?? 0;
    this.code = about.code ?? '';
    this.retryAfterMs = about.retryAfterMs;
  }
}

/** Temporary error codes of S3 services, whatever their status. */
const passing: ReadonlySet<string> = new Set([
  'SlowDown',
  'InternalError',
  'ServiceUnavailable',
  'RequestTimeout',
  'OperationAborted',
  'ConditionalRequestConflict',
]);

/** A proxy's answer: it says nothing about what the upstream stores. */
const isForeign404 = ({ status, code }: UpstreamError): boolean => status === 404 && code === '';

/** Whether a retry of the same request may succeed. */
export const isPassing = (cause: UpstreamError): boolean => {
  const { status, code } = cause;
  if (status === 0 || status === 429 || isForeign404(cause)) return true;
  return (status >= 500 && status !== 501) || passing.has(code);
};

/** Never for an answer without a code: not for HEAD either (`readHead`). */
export const isGone = (cause: unknown, ...codes: readonly string[]): boolean =>
  cause instanceof UpstreamError &&
  cause.status === 404 &&
  (codes.includes(cause.code) || cause.code === 'NotFound');

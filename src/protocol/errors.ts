/** The error catalogue: the one place that knows status and text (spec "Errors", style 20). */
import type { ErrorCode } from '../errors/codes.ts';

export interface ErrorEntry {
  readonly status: number;
  readonly message: string;
  /** Seconds for the `Retry-After` header. */
  readonly retryAfter?: number;
}

export const errorCatalogue: { readonly [C in ErrorCode]: ErrorEntry } = {
  AccessDenied: { status: 403, message: 'Access Denied' },
  AuthorizationHeaderMalformed: { status: 400, message: 'The authorization header is malformed.' },
  AuthorizationQueryParametersError: {
    status: 400,
    message: 'The authorization query parameters are malformed.',
  },
  BadDigest: { status: 400, message: 'The digest you specified did not match what was received.' },
  BadRequest: { status: 400, message: 'The request could not be understood.' },
  BucketAlreadyExists: { status: 409, message: 'The requested bucket name is not available.' },
  BucketAlreadyOwnedByYou: {
    status: 409,
    message: 'The bucket that you tried to create already exists, and you own it.',
  },
  BucketNotEmpty: { status: 409, message: 'The bucket you tried to delete is not empty.' },
  ConditionalRequestConflict: {
    status: 409,
    message: 'A concurrent request changed the object while this conditional one was in progress. Retry it.',
  },
  DrainRefused: {
    status: 503,
    message: 'No cluster accepts new objects for this request right now.',
    retryAfter: 300,
  },
  EntityTooLarge: { status: 400, message: 'Your proposed upload exceeds the maximum allowed size.' },
  EntityTooSmall: { status: 400, message: 'Your proposed upload is smaller than the minimum allowed size.' },
  ExpiredToken: { status: 400, message: 'The provided token has expired.' },
  IllegalLocationConstraintException: {
    status: 400,
    message: 'The location constraint does not match the region of this endpoint.',
  },
  IllegalVersioningConfigurationException: {
    status: 400,
    message: 'The versioning configuration specified in the request is invalid.',
  },
  IncompleteBody: {
    status: 400,
    message: 'You did not provide the number of bytes specified by the Content-Length HTTP header.',
  },
  InternalError: { status: 500, message: 'We encountered an internal error. Please try again.' },
  InvalidAccessKeyId: {
    status: 403,
    message: 'The access key id you provided does not exist in our records.',
  },
  InvalidArgument: { status: 400, message: 'Invalid Argument' },
  InvalidBucketName: { status: 400, message: 'The specified bucket is not valid.' },
  InvalidBucketState: {
    status: 409,
    message: 'The request is not valid for the current state of the bucket.',
  },
  InvalidDigest: { status: 400, message: 'The digest you specified is not valid.' },
  InvalidLocationConstraint: { status: 400, message: 'The specified location constraint is not valid.' },
  InvalidObjectState: {
    status: 403,
    message: 'The operation is not valid for the current state of the object.',
  },
  InvalidPart: {
    status: 400,
    message: 'One or more of the specified parts could not be found, or its ETag did not match.',
  },
  InvalidPartNumber: { status: 416, message: 'The requested part number is not satisfiable.' },
  InvalidPartOrder: { status: 400, message: 'The list of parts was not in ascending order.' },
  InvalidRange: { status: 416, message: 'The requested range is not satisfiable.' },
  InvalidRequest: { status: 400, message: 'Invalid Request' },
  InvalidStorageClass: { status: 400, message: 'The storage class you specified is not valid.' },
  InvalidTag: { status: 400, message: 'The tag provided was not a valid tag.' },
  InvalidTargetBucketForLogging: {
    status: 400,
    message: 'The target bucket for logging does not exist or is not owned by you.',
  },
  InvalidToken: { status: 400, message: 'The provided token is malformed or otherwise not valid.' },
  InvalidURI: { status: 400, message: 'The specified URI could not be parsed.' },
  KeyTooLongError: { status: 400, message: 'Your key is too long: the limit is 1024 bytes of UTF-8.' },
  MalformedACLError: {
    status: 400,
    message: 'The ACL you provided was not well-formed or did not validate.',
  },
  MalformedPolicy: { status: 400, message: 'The policy is not valid.' },
  MalformedTrailerError: {
    status: 400,
    message: 'The trailing headers of the body are not well-formed or not as announced.',
  },
  MalformedXML: { status: 400, message: 'The XML you provided was not well-formed or did not validate.' },
  MaxMessageLengthExceeded: { status: 400, message: 'Your request body was too large.' },
  MetadataTooLarge: {
    status: 400,
    message: 'Your metadata headers exceed the maximum allowed metadata size of 2 KiB.',
  },
  MethodNotAllowed: { status: 405, message: 'The specified method is not allowed against this resource.' },
  MissingContentLength: { status: 411, message: 'You must provide the Content-Length HTTP header.' },
  MissingRequestBodyError: { status: 400, message: 'Request body is empty.' },
  MissingSecurityHeader: { status: 400, message: 'Your request is missing a required header.' },
  NoSuchAuditEntry: { status: 404, message: 'There is no such audit entry.' },
  NoSuchBucket: { status: 404, message: 'The specified bucket does not exist.' },
  NoSuchBucketPolicy: { status: 404, message: 'The bucket policy does not exist.' },
  NoSuchKey: { status: 404, message: 'The specified key does not exist.' },
  NoSuchTagSet: { status: 404, message: 'There is no tag set associated with the resource.' },
  NoSuchUpload: {
    status: 404,
    message: 'The specified multipart upload does not exist. It may have been aborted or completed.',
  },
  NoSuchVersion: { status: 404, message: 'The specified version does not exist.' },
  NotFound: { status: 404, message: 'There is nothing at this address.' },
  NotImplemented: {
    status: 501,
    message: 'A header, query or operation of this request is not implemented.',
  },
  NotModified: { status: 304, message: 'Not Modified' },
  NotSignedUp: { status: 403, message: 'Your account is not signed up.' },
  OperationAborted: {
    status: 409,
    message: 'A conflicting operation on this resource is in progress. Please try again.',
  },
  PreconditionFailed: {
    status: 412,
    message: 'At least one of the preconditions you specified did not hold.',
  },
  RequestHeaderSectionTooLarge: {
    status: 400,
    message: 'Your request headers exceed the maximum allowed size.',
  },
  RequestTimeTooSkewed: {
    status: 403,
    message: 'The difference between the request time and the server time is too large.',
  },
  RequestTimeout: {
    status: 400,
    message: 'Your connection was idle for too long while its body was expected.',
  },
  ServiceUnavailable: {
    status: 503,
    message: 'The service is temporarily unavailable. Please retry.',
    retryAfter: 1,
  },
  SignatureDoesNotMatch: {
    status: 403,
    message:
      'The request signature we calculated does not match the signature you provided. Check your key and signing method.',
  },
  SlowDown: { status: 503, message: 'Please reduce your request rate.', retryAfter: 1 },
  TooManyBuckets: { status: 400, message: 'You have attempted to create more buckets than allowed.' },
  UnsupportedSignature: { status: 400, message: 'The signature version of this request is not supported.' },
  XAmzContentChecksumMismatch: {
    status: 400,
    message: 'The provided checksum does not match what was received.',
  },
  XAmzContentSHA256Mismatch: {
    status: 400,
    message: 'The provided content-sha256 header does not match what was computed.',
  },
};

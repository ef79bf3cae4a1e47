/** Refusals of requests: the codes, and the exception that carries one. */

// The one way to refuse a request: `throw fail('NoSuchKey', { Key: key })`.

/** Extra elements of the error body; `message` replaces the catalogue's text, `cause` is only logged. */
export interface RefusalDetails {
  readonly message?: string;
  readonly cause?: unknown;
  /** Seconds after which the client should retry; absent uses the value of the catalogue. */
  readonly retryAfter?: number;
  /** The setting of a public access block that refuses, for the text that callers of the resource's account get. */
  readonly blockedBy?: 'BlockPublicAcls' | 'BlockPublicPolicy';
  /** The text and elements that callers of one account get in addition, because they tell what is its own. */
  readonly forAccount?: {
    readonly account: string;
    readonly message: string;
    readonly elements: Readonly<Record<string, string | number>>;
  };
  /** The delete marker that a read found in place of an object. */
  readonly deleteMarker?: { readonly versionId: string; readonly modified: number };
  /** Further reply headers (bare names take the dialect's prefix when they start with `*-`). */
  readonly headers?: Readonly<Record<string, string>>;
  /** The field of a body, or the parameter, that is wrong; in `details` of the operator API's errors. */
  readonly field?: string;
  /** Elements beside Code and Message, such as `Key` or `ArgumentName`. */
  readonly elements?: Readonly<Record<string, string | number>>;
}

export class Refusal extends Error {
  readonly code: ErrorCode;
  readonly details: RefusalDetails;

  constructor(code: ErrorCode, details: RefusalDetails) {
    super(details.message ?? code, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.details = details;
    this.name = 'Refusal';
  }
}

export const fail = (code: ErrorCode, details: RefusalDetails | string = {}): Refusal =>
  new Refusal(code, typeof details === 'string' ? { message: details } : details);

/** The header, parameter or element that is wrong, with its value. */
export const invalidArgument = (
  ArgumentName: string,
  ArgumentValue: string | number,
  message: string,
): Refusal => fail('InvalidArgument', { message, elements: { ArgumentName, ArgumentValue } });

/** Every error code that a client can receive. Status and text are in `protocol/errors.ts`. */
export const errorCodes = [
  'AccessControlListNotSupported',
  'AccessDenied',
  'AccessForbidden',
  'AccessPointAlreadyOwnedByYou',
  'AccountProblem',
  'AuthorizationHeaderMalformed',
  'AuthorizationQueryParametersError',
  'BadDigest',
  'BadRequest',
  'BucketAlreadyExists',
  'BucketHasAccessPointsAttached',
  'BucketNotEmpty',
  'DeleteConflict',
  'DrainRefused',
  'EntityAlreadyExists',
  'EntityTooLarge',
  'EntityTooSmall',
  'ExpiredToken',
  'IdMismatch',
  'IdempotencyKeyReused',
  'IllegalLocationConstraintException',
  'IllegalVersioningConfigurationException',
  'IncompleteBody',
  'InsufficientStorage',
  'InternalError',
  'InvalidAccessKeyId',
  'InvalidAction',
  'InvalidArgument',
  'InvalidAuthenticationCode',
  'InvalidBucketAclWithObjectOwnership',
  'InvalidBucketName',
  'InvalidBucketState',
  'InvalidClusterState',
  'InvalidDigest',
  'InvalidEncryptionAlgorithmError',
  'InvalidInput',
  'InvalidLocationConstraint',
  'InvalidParameterCombination',
  'InvalidObjectState',
  'InvalidParameterValue',
  'InvalidPart',
  'InvalidPartNumber',
  'InvalidPartOrder',
  'InvalidPolicyDocument',
  'InvalidRange',
  'InvalidRedirectLocation',
  'InvalidRequest',
  'InvalidS3DestinationBucket',
  'InvalidStorageClass',
  'InvalidTag',
  'InvalidTargetBucketForLogging',
  'InvalidToken',
  'InvalidURI',
  'KMS.NotFoundException',
  'KMSUnavailable',
  'KeyDenied',
  'KeyExpired',
  'KeyTampered',
  'KeyTooLongError',
  'MalformedJSON',
  'LimitExceeded',
  'MalformedACLError',
  'MalformedPOSTRequest',
  'MalformedPolicy',
  'MalformedQueryString',
  'MalformedTrailerError',
  'MalformedXML',
  'MaxMessageLengthExceeded',
  'MaxPostPreDataLengthExceededError',
  'MetadataDamaged',
  'MetadataTooLarge',
  'MethodNotAllowed',
  'MissingAction',
  'MissingAuthenticationToken',
  'MissingContentLength',
  'MissingRequestBodyError',
  'MissingSecurityHeader',
  'NoSuchAccessPoint',
  'NoSuchAccessPointPolicy',
  'NoSuchBucket',
  'NoSuchBucketPlacement',
  'NoSuchBucketPolicy',
  'NoSuchBucketQuota',
  'NoSuchCORSConfiguration',
  'NoSuchEntity',
  'NoSuchCluster',
  'NoSuchConfiguration',
  'NoSuchKey',
  'NoSuchLifecycleConfiguration',
  'NoSuchPublicAccessBlockConfiguration',
  'NoSuchObjectLockConfiguration',
  'NoSuchTagSet',
  'NoSuchSigningKey',
  'NoSuchUpload',
  'NoSuchUserQuota',
  'NoSuchVersion',
  'NoSuchWebsiteConfiguration',
  'NotFound',
  'NotImplemented',
  'ObjectLockConfigurationNotFoundError',
  'OperationAborted',
  'OwnershipControlsNotFoundError',
  'PackedPolicyTooLarge',
  'PreconditionFailed',
  'QuotaExceeded',
  'ReplicationConfigurationNotFoundError',
  'RequestHeaderSectionTooLarge',
  'RequestTimeTooSkewed',
  'RequestTimeout',
  'SecretUnreadable',
  'ServerSideEncryptionConfigurationNotFoundError',
  'ServiceUnavailable',
  'SignatureDoesNotMatch',
  'SlowDown',
  'TooManyConfigurations',
  'TooManyRequests',
  'UnresolvableGrantByEmailAddress',
  'ValidationError',
  'XAmzContentSHA256Mismatch',
] as const;

export type ErrorCode = (typeof errorCodes)[number];

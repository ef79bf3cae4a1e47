/** The error catalogue: status and text of every error code. */
import type { ErrorCode } from '../base/errors.ts';

export interface ErrorEntry {
  readonly status: number;
  readonly message: string;
  /** Seconds for the `Retry-After` header. */
  readonly retryAfter?: number;
}

export const errorCatalogue: { readonly [C in ErrorCode]: ErrorEntry } = {
  AccessControlListNotSupported: { status: 400, message: 'The bucket does not allow ACLs' },
  AccessDenied: { status: 403, message: 'Access Denied' },
  AccessForbidden: { status: 403, message: 'CORSResponse: This CORS request is not allowed.' },
  AccessPointAlreadyOwnedByYou: {
    status: 409,
    message: 'An access point with the same name already exists in your account.',
  },
  AccountProblem: {
    status: 403,
    message: 'The account is suspended. Ask its operator to make it active again.',
  },
  AuthorizationHeaderMalformed: { status: 400, message: 'The authorization header is malformed.' },
  AuthorizationQueryParametersError: {
    status: 400,
    message: 'The authorization query parameters are malformed.',
  },
  BadDigest: { status: 400, message: 'The digest you specified did not match what was received.' },
  BadRequest: { status: 400, message: 'The request could not be understood.' },
  BucketAlreadyExists: { status: 409, message: 'The requested bucket name is not available.' },
  BucketHasAccessPointsAttached: {
    status: 400,
    message: 'The bucket has access points attached. Delete your access points and try again.',
  },
  BucketNotEmpty: { status: 409, message: 'The bucket you tried to delete is not empty.' },
  DeleteConflict: { status: 409, message: 'The entity still has subordinate entities.' },
  DrainRefused: {
    status: 503,
    message: 'The clusters that this write may go to take no new objects. Please try again later.',
    retryAfter: 300,
  },
  EntityAlreadyExists: { status: 409, message: 'The entity already exists.' },
  EntityTooLarge: { status: 400, message: 'Your proposed upload exceeds the maximum allowed size.' },
  EntityTooSmall: { status: 400, message: 'Your proposed upload is smaller than the minimum allowed size.' },
  ExpiredToken: { status: 400, message: 'The provided token has expired.' },
  IdMismatch: { status: 400, message: 'The id of the address is not that of the configuration.' },
  IdempotencyKeyReused: {
    status: 422,
    message: 'The Idempotency-Key was given with another request before: use a new key.',
  },
  IllegalLocationConstraintException: {
    status: 400,
    message:
      'The location constraint is incompatible for the region specific endpoint this request was sent to.',
  },
  IllegalVersioningConfigurationException: {
    status: 400,
    message: 'The versioning configuration specified in the request is invalid.',
  },
  IncompleteBody: {
    status: 400,
    message: 'You did not provide the number of bytes specified by the Content-Length HTTP header.',
  },
  InsufficientStorage: {
    status: 507,
    message:
      'The storage is full: objects can be read and deleted, and no data can be added until some was deleted.',
  },
  InternalError: { status: 500, message: 'We encountered an internal error. Please try again.' },
  InvalidAccessKeyId: {
    status: 403,
    message: 'The access key id you provided does not exist in our records.',
  },
  InvalidAction: { status: 400, message: 'The action or operation requested is invalid.' },
  InvalidArgument: { status: 400, message: 'Invalid Argument' },
  InvalidAuthenticationCode: { status: 403, message: 'The authentication code is not valid.' },
  InvalidBucketAclWithObjectOwnership: {
    status: 400,
    message: "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting.",
  },
  InvalidBucketName: { status: 400, message: 'The specified bucket is not valid.' },
  InvalidBucketState: {
    status: 409,
    message: 'The request is not valid for the current state of the bucket.',
  },
  InvalidClusterState: {
    status: 409,
    message: 'The request is not valid for the current state of the cluster.',
  },
  InvalidDigest: { status: 400, message: 'The digest you specified is not valid.' },
  InvalidEncryptionAlgorithmError: {
    status: 400,
    message: 'The Encryption request you specified is not valid. Supported value: AES256.',
  },
  InvalidInput: {
    status: 400,
    message: 'An invalid or out-of-range value was supplied for an input parameter.',
  },
  InvalidLocationConstraint: { status: 400, message: 'The specified location constraint is not valid.' },
  InvalidParameterCombination: {
    status: 400,
    message: 'Parameters that must not be used together were used together.',
  },
  InvalidObjectState: {
    status: 403,
    message: "The operation is not valid for the object's storage class",
  },
  InvalidParameterValue: {
    status: 400,
    message: 'An invalid or out-of-range value was supplied for the input parameter.',
  },
  InvalidPart: {
    status: 400,
    message: 'One or more of the specified parts could not be found, or its ETag did not match.',
  },
  InvalidPartNumber: { status: 416, message: 'The requested partnumber is not satisfiable' },
  InvalidPartOrder: { status: 400, message: 'The list of parts was not in ascending order.' },
  InvalidPolicyDocument: {
    status: 400,
    message: 'The content of the form does not meet the conditions specified in the policy document.',
  },
  InvalidRange: { status: 416, message: 'The requested range is not satisfiable.' },
  InvalidRedirectLocation: {
    status: 400,
    message: "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
  },
  InvalidRequest: { status: 400, message: 'Invalid Request' },
  InvalidS3DestinationBucket: {
    status: 400,
    message: 'The destination bucket of the configuration is not valid.',
  },
  InvalidStorageClass: { status: 400, message: 'The storage class you specified is not valid.' },
  InvalidTag: { status: 400, message: 'The tag provided was not a valid tag.' },
  InvalidTargetBucketForLogging: {
    status: 400,
    message:
      'The target bucket for logging does not exist, is not owned by you, or is not in the same region.',
  },
  InvalidToken: { status: 400, message: 'The provided token is malformed or otherwise not valid.' },
  InvalidURI: { status: 400, message: 'The specified URI could not be parsed.' },
  'KMS.NotFoundException': { status: 400, message: 'Invalid keyId: the key provider has no such key.' },
  KMSUnavailable: {
    status: 503,
    message: 'The key provider cannot be reached. Please retry.',
    retryAfter: 30,
  },
  KeyDenied: {
    status: 401,
    message: 'The key provider does not unwrap this key with the key it was asked to use.',
  },
  KeyExpired: {
    status: 401,
    message: 'The signing key of the bucket has expired. An operator must rotate it.',
  },
  KeyTampered: { status: 401, message: 'The wrapped key is not what the key provider wrapped.' },
  KeyTooLongError: { status: 400, message: 'Your key is too long: the limit is 1024 bytes of UTF-8.' },
  MalformedJSON: { status: 400, message: 'The JSON of the body is not what is expected here.' },
  LimitExceeded: { status: 409, message: 'The limit of the account is exceeded.' },
  MalformedACLError: {
    status: 400,
    message: 'The ACL you provided was not well-formed or did not validate.',
  },
  MalformedPOSTRequest: {
    status: 400,
    message: 'The body of your POST request is not well-formed multipart/form-data.',
  },
  MalformedPolicy: { status: 400, message: 'The policy is not valid.' },
  MalformedQueryString: { status: 404, message: 'The query string contains a syntax error.' },
  MalformedTrailerError: {
    status: 400,
    message: 'The trailing headers of the body are not well-formed or not as announced.',
  },
  MalformedXML: { status: 400, message: 'The XML you provided was not well-formed or did not validate.' },
  MaxMessageLengthExceeded: { status: 400, message: 'Your request body was too large.' },
  MaxPostPreDataLengthExceededError: {
    status: 400,
    message: 'Your POST request fields preceding the upload file were too large.',
  },
  MetadataDamaged: {
    status: 500,
    message:
      'The record of what you asked for is damaged on the disk of this service. Trying again does not help; its operator has to repair it.',
  },
  MetadataTooLarge: {
    status: 400,
    message: 'Your metadata headers exceed the maximum allowed metadata size of 2 KiB.',
  },
  MethodNotAllowed: { status: 405, message: 'The specified method is not allowed against this resource.' },
  MissingAction: { status: 400, message: 'The request is missing an action.' },
  MissingAuthenticationToken: { status: 403, message: 'Request is missing Authentication Token' },
  MissingContentLength: { status: 411, message: 'You must provide the Content-Length HTTP header.' },
  MissingRequestBodyError: { status: 400, message: 'Request body is empty.' },
  MissingSecurityHeader: { status: 400, message: 'Your request was missing a required header' },
  NoSuchAccessPoint: { status: 404, message: 'The specified access point does not exist.' },
  NoSuchAccessPointPolicy: { status: 404, message: 'The specified access point does not have a policy.' },
  NoSuchBucket: { status: 404, message: 'The specified bucket does not exist' },
  NoSuchBucketPlacement: { status: 404, message: 'The bucket has no placement.' },
  NoSuchBucketPolicy: { status: 404, message: 'The bucket policy does not exist' },
  NoSuchBucketQuota: { status: 404, message: 'The bucket has no quota.' },
  NoSuchCORSConfiguration: { status: 404, message: 'The CORS configuration does not exist.' },
  NoSuchEntity: { status: 404, message: 'The entity cannot be found.' },
  NoSuchCluster: { status: 404, message: 'The specified cluster does not exist.' },
  NoSuchConfiguration: { status: 404, message: 'The specified configuration does not exist.' },
  NoSuchKey: { status: 404, message: 'The specified key does not exist.' },
  NoSuchLifecycleConfiguration: { status: 404, message: 'The lifecycle configuration does not exist.' },
  NoSuchPublicAccessBlockConfiguration: {
    status: 404,
    message: 'The public access block configuration was not found.',
  },
  NoSuchObjectLockConfiguration: {
    status: 404,
    message: 'The specified object does not have an ObjectLock configuration.',
  },
  NoSuchTagSet: { status: 404, message: 'The TagSet does not exist.' },
  NoSuchUserQuota: { status: 404, message: 'The user has no quota.' },
  NoSuchSigningKey: { status: 404, message: 'The bucket has no signing key.' },
  NoSuchUpload: {
    status: 404,
    message: 'The specified multipart upload does not exist. It may have been aborted or completed.',
  },
  NoSuchVersion: { status: 404, message: 'The specified version does not exist.' },
  NoSuchWebsiteConfiguration: {
    status: 404,
    message: 'The specified bucket does not have a website configuration.',
  },
  NotFound: { status: 404, message: 'There is nothing at this address.' },
  NotImplemented: {
    status: 501,
    message: 'A header, query or operation of this request is not implemented.',
  },
  ObjectLockConfigurationNotFoundError: {
    status: 404,
    message: 'Object Lock configuration does not exist for this bucket',
  },
  OperationAborted: {
    status: 409,
    message: 'A conflicting operation on this resource is in progress. Please try again.',
  },
  OwnershipControlsNotFoundError: { status: 404, message: 'The bucket ownership controls were not found.' },
  PackedPolicyTooLarge: { status: 400, message: 'The session policies and tags are too large together.' },
  PreconditionFailed: {
    status: 412,
    message: 'At least one of the pre-conditions you specified did not hold',
  },
  QuotaExceeded: { status: 403, message: 'quota exceeded for bucket' },
  ReplicationConfigurationNotFoundError: {
    status: 404,
    message: 'The replication configuration was not found.',
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
  SecretUnreadable: {
    status: 500,
    message:
      'A secret that this request needs cannot be opened, because this service lacks the master key that sealed it. Trying again does not help; its operator has to restore the key.',
  },
  ServerSideEncryptionConfigurationNotFoundError: {
    status: 404,
    message: 'The server side encryption configuration was not found.',
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
  TooManyConfigurations: {
    status: 400,
    message:
      'You are attempting to create a new configuration but have already reached the 1,000-configuration limit.',
  },
  TooManyRequests: {
    status: 429,
    message: 'Too many requests of this kind. Please retry later.',
    retryAfter: 60,
  },
  ValidationError: { status: 400, message: 'The input fails to satisfy the constraints of the service.' },
  UnresolvableGrantByEmailAddress: {
    status: 400,
    message: 'The e-mail address you provided does not match any account on record.',
  },
  XAmzContentSHA256Mismatch: {
    status: 400,
    message: 'The provided content-sha256 header does not match what was computed.',
  },
};

export const errorStatus = (code: ErrorCode): number => errorCatalogue[code].status;

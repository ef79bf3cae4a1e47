/** What can be asked through an access point: everything about objects, and of a bucket what using it takes (public API). */
import { fail } from '../errors/refusal.ts';
import type { OperationName } from '../protocol/operations.ts';
import type { Scope } from '../protocol/request-line.ts';

const ofBucket: ReadonlySet<OperationName> = new Set([
  'HeadBucket',
  'GetBucketAcl',
  'GetBucketCors',
  'GetBucketLocation',
  'GetBucketNotificationConfiguration',
  'GetBucketPolicy',
  'ListObjects',
  'ListObjectsV2',
  'ListObjectVersions',
  'ListMultipartUploads',
  'DeleteObjects',
]);

/** @throws MethodNotAllowed */
export function assertServed(operation: OperationName, scope: Scope): void {
  if (scope !== 'object' && !ofBucket.has(operation))
    throw fail('MethodNotAllowed', `${operation} is not an operation of access points.`);
}

/** A handler: a function from an authorized request to its reply. */
import type { Context } from '../context.ts';
import { assertObject } from '../domain/objects/read-object.ts';
import type { Authorized, AuthorizedInBucket } from '../gateway/request.ts';
import type { ObjectRow } from '../metadata/tables.ts';
import type { Operation, OperationName, operations } from '../protocol/operations/operations.ts';
import type { Reply } from '../protocol/reply/reply.ts';
import type { ReadFacts } from './common/body-facts.ts';

/** The version that the operation is about. @throws NoSuchKey, NoSuchVersion, MethodNotAllowed for a delete marker */
export const requireTarget = ({ target, key, query }: AuthorizedInBucket): ObjectRow =>
  assertObject(target, { key, versionId: query.get('versionId') });

/**
 * Operations without an existing bucket: service scope, the creation of one, and preflights, which tell in words of
 * their own that it is missing.
 */
type Bucketless<N extends OperationName> = (typeof operations)[N]['on'] extends
  | `${string} service${string}`
  | `OPTIONS ${string}`
  | 'PUT bucket'
  ? true
  : false;
export type HandlerOf<N extends OperationName> = (
  ctx: Context,
  request: Bucketless<N> extends true ? Authorized : AuthorizedInBucket,
) => Promise<Reply>;

export interface Entry<N extends OperationName> {
  readonly handle: HandlerOf<N>;
  /** Set for an operation whose body is read before its authorization. */
  readonly facts?: ReadFacts;
}
export type Handlers = { readonly [N in OperationName]: Entry<N> };

export const needsBucket = (operation: Operation): boolean =>
  !/^(\w+ service|OPTIONS |PUT bucket$)/.test(operation.on);

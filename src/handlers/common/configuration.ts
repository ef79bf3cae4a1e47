/**
 * A configuration of a bucket as the operator API reads and writes it. Its JSON is the value that the XML of the public API is read into, so
 * both are checked by the same rules and stored as the same record.
 */
import type { Caller } from '../../auth/authorization/authorize.ts';
import type { Awaitable } from '../../base/awaitable.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/events/recorder.ts';
import type { ErrorCode } from '../../errors/codes.ts';
import type { AuthorizedInBucket } from '../../gateway/request.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Checks } from './checks.ts';

/** What the rules of a configuration need of the request that brings it. */
export interface Configuring extends Caller, Pick<AuthorizedInBucket, 'bucket' | 'requestId' | 'signal'> {
  readonly record?: Recorder | undefined;
  readonly checks: Checks;
}

/** A configuration that has passed its checks. */
export interface Prepared {
  /** Stores it; the checks that rest on the bucket's row are repeated with the row that the commit replaces. */
  commit(): Promise<void>;
}

export interface Configuration<in T> {
  /** What is set; undefined where nothing is. Of a family with ids: the one with the id, or all of them by id. */
  read(ctx: Context, bucket: BucketRow, id?: string): Awaitable<unknown>;
  /** The answer for one that is not set: an error code, or the default document. */
  readonly unset: ErrorCode | object;
  /** @throws the refusal of the first part, unless `checks` gathers them; then `commit` must not be called */
  prepare(
    ctx: Context,
    request: Configuring,
    given: { readonly value: T; readonly id?: string },
  ): Promise<Prepared>;
  /** Absent where the configuration can be changed, but not removed. */
  remove?(ctx: Context, request: Configuring, id?: string): Promise<void>;
}

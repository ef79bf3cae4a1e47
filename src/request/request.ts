/**
 * A request on its way through the gateway. Each stage of the pipeline adds the facts that it establishes:
 *
 *     Received → Located → Identified → Selected → Authorized
 *
 * All stages are types of one object. A step names the stage that it needs, so the compiler refuses a step that comes too early.
 * `RequestContext` is a request at any stage: the audit row, the access log and the metrics are written from it when the request
 * ends.
 */
import type { Identity, Payload, Renew, Signed } from '../auth/identity.ts';
import type { Refusal } from '../base/errors.ts';
import type { MemoryHolder } from '../base/shared-budget.ts';
import type { Context } from '../context.ts';
import type { Reached } from '../domain/access/access-points.ts';
import type { RecordedRows, Recorder } from '../domain/common/recorder.ts';
import { type Admission, type Scope as LimitScope, RateLimiter } from '../domain/quotas/rate-limiter.ts';
import type { AccessPointRow } from '../metadata/records/access-points.ts';
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';
import type { ControlAsked } from '../protocol/address.ts';
import type { Dialect } from '../protocol/dialect.ts';
import type { OperationName, OperationRow } from '../protocol/operations/operations.ts';
import type { Scope } from '../protocol/operations/parameters.ts';
import type { ErrorFormat } from '../protocol/render.ts';
import type { Incoming, Parameters, Query, Wire } from '../protocol/wire.ts';

/** How a request ended; `code` is the error code of a refusal. */
export interface Ending {
  readonly status: number;
  readonly code: string | undefined;
}

/** A key that a request names among others. */
export interface NamedKey {
  readonly key: string;
  readonly versionId?: string | undefined;
}

/** What became of a key; the error code of a refusal. */
export interface KeyOutcome {
  readonly status: number;
  readonly error?: string | undefined;
}

/** Records what becomes of the keys of a request, by their positions in it. */
export interface KeyRecorder {
  /**
   * Before a key is deleted: resolves once the audit log names it. A full disk takes nothing but deletions: then it resolves to rows that
   * belong into the commit of the deletion.
   * @throws what the store throws
   */
  begin(place: number): Promise<RecordedRows>;
  settle(place: number, outcome: KeyOutcome): void;
}

/** Writes the audit row of a request: with its commits, and at its end where no commit did. */
export interface AuditRecorder extends Recorder {
  /** For a request about many keys: further rows name them. Called once; they end with the request. */
  ofKeys(keys: readonly NamedKey[]): KeyRecorder;
  /** Whether the row was committed with this result, so that `end` has nothing to do. */
  isComplete(ending: Ending): boolean;
  end(ending: Ending): Promise<void>;
}

/** The memory that a request reserves in `bodyMemory`, from the first byte of its body until it is answered. */
export interface BufferCounter {
  bufferedBytes: number;
  /** For whom; undefined before the first byte. */
  bufferedFor: MemoryHolder | undefined;
}

/** The operation of a request that was refused before one was selected. */
export const unknownOperation = 'Unknown';

export interface Received extends BufferCounter {
  readonly requestId: string;
  readonly incoming: Incoming;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** The path as it was sent. */
  readonly path: string;
  /** The query as it was sent, without the question mark. */
  readonly rawQuery: string;
  /** By the monotonic clock (ms). */
  readonly startedAt: number;
  /** The name in logs and metrics: an operation, `area:<area>`, `admin:<operation>` or `Unknown`. */
  readonly operation: string;
  /** How a refusal is written. */
  readonly format: ErrorFormat;
  /** The request's own dialect; undefined when it showed none. */
  readonly dialect: Dialect | undefined;
  /** The places of the request under rate limits; absent where no limit applies. */
  readonly admission: Admission | undefined;
  /** Absent where the request changes nothing, or where that is not known yet. */
  readonly record: AuditRecorder | undefined;
}

/** The operation and its target, as the address of a request names them. */
export interface Asked {
  /** The operation's name, or `admin:<OperationName>`. */
  readonly action: string;
  readonly audited: boolean;
  readonly bucketName: string;
  readonly key: string;
}

/** Finds the operation of the operator API at a method and path; undefined where there is none. */
export type FindAsked = (method: string, path: string) => Asked | undefined;

/** The target, as host and path name it. Nothing is verified yet. */
export interface Located extends Received {
  /** With the client's address and protocol as trusted proxies forwarded them. */
  readonly wire: Wire;
  readonly query: Query;
  /** The raw path without the mount point. */
  readonly local: string;
  /** The bucket that the host names. */
  readonly virtual: string | undefined;
  /** Undefined for the storage protocol. */
  readonly area: string | undefined;
  /** The request names its operation by `Action`, as for IAM and STS, or has the form of S3 Control. */
  readonly isAction: boolean;
  readonly control: ControlAsked | undefined;
  /** The host is that of a website. */
  readonly isSite: boolean;
  /** Absent in a gateway without the operator API. */
  readonly findAdmin?: FindAsked | undefined;
}

/** Who sent it, and which bucket and key it names. */
export interface Identified extends Located {
  readonly identity: Identity;
  readonly signed: Signed | undefined;
  /** Looks the caller up again after a body that arrived slowly; absent for anonymous requests. */
  readonly renew: Renew | undefined;
  readonly payload: Payload;
  /** The headers of the request's dialect by bare name: see `ownHeaders`. */
  readonly own: ReadonlyMap<string, string>;
  readonly scope: Scope;
  /** The bucket, or the alias or label of an access point; '' at service scope. */
  readonly addressedName: string;
  /** The bucket's name, once an access point is resolved; '' at service scope. */
  readonly bucketName: string;
  /** The object's key; '' at service and bucket scope. */
  readonly key: string;
  /** The bucket, where the verification of the signature has read it from the store; the refusal, where there is none. */
  readonly reached?: Reached | Refusal | undefined;
  /** The signing key of the bucket that the request is signed with, wrapped; absent where it is signed with the caller's own secret. */
  readonly signedWith?: string | undefined;
}

/** Which operation it asks for. */
export interface Selected extends Identified {
  readonly operation: OperationName;
  readonly row: OperationRow;
  /** The parameters of an action, or the fields of a form; empty for everything else. */
  readonly parameters: Parameters;
}

/** The caller may do it: what handlers get. */
export interface Authorized extends Selected {
  /** The access point that the request came through. */
  readonly accessPoint?: AccessPointRow | undefined;
  /** The whole body, verified, where the operation's row bounds it; else empty. */
  readonly body: Uint8Array;
  /** The requester pays for the request, not the owner of the bucket. */
  readonly requesterPays?: boolean | undefined;
  /** The caller may do what it asks: the request has its place under the limit of the bucket, and invoices count it. */
  readonly isPermitted?: boolean | undefined;
  /** Nothing but an ACL allows the request. */
  readonly isByAcl?: boolean | undefined;
  /** For a copy: authorizes the caller again at the end of a content that took long to read. The content then fails where that refuses. */
  readonly stillAuthorized?: ((content: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>) | undefined;
  /** The size of the version that the request made of stored bytes: a copy, a completed upload. */
  readonly composedSize?: number | undefined;
}

/** The additional facts of a request about an existing bucket. */
export interface InBucket {
  readonly bucket: BucketRow;
  /** The row came from a cache: a refusal based on it is repeated with a fresh row. */
  readonly isCached?: boolean | undefined;
  /** For an operation on a version: its row, if it exists; see `targetOf`. */
  readonly target?: ObjectRow | undefined;
  /**
   * For a change of a version: authorizes the caller as before, but for another version, which took the place of `target` meanwhile.
   * @throws AccessDenied
   */
  readonly authorizeAgain?: ((target: ObjectRow) => Promise<void>) | undefined;
  /**
   * Where the request names a key of the key provider by an alias: authorizes the caller as before, with further names of the key, which
   * are known once the provider has answered.
   * @throws AccessDenied
   */
  readonly authorizeKey?: ((names: readonly string[]) => Promise<void>) | undefined;
}

/** What handlers get of a request about a bucket. */
export interface AuthorizedInBucket extends Authorized, InBucket {}

/** A request at any stage. */
export type RequestContext = Received & Partial<Omit<AuthorizedInBucket, keyof Received>>;

/** A request as it arrived, with every later fact still open. */
export function receive(
  incoming: Incoming,
  {
    requestId,
    path,
    query,
    startedAt,
  }: Pick<Received, 'requestId' | 'path' | 'startedAt'> & { readonly query: string },
): Received {
  const request: Received & { [F in Exclude<keyof AuthorizedInBucket, keyof Received>]: undefined } = {
    requestId,
    incoming,
    signal: incoming.signal,
    path,
    rawQuery: query,
    startedAt,
    operation: unknownOperation,
    format: 'xml',
    dialect: undefined,
    admission: undefined,
    record: undefined,
    bufferedBytes: 0,
    bufferedFor: undefined,
    // All fields are present from the start, so that the object keeps its hidden class and stays fast to read.
    wire: undefined,
    query: undefined,
    local: undefined,
    virtual: undefined,
    area: undefined,
    isAction: undefined,
    control: undefined,
    isSite: undefined,
    findAdmin: undefined,
    identity: undefined,
    signed: undefined,
    renew: undefined,
    payload: undefined,
    own: undefined,
    scope: undefined,
    addressedName: undefined,
    bucketName: undefined,
    reached: undefined,
    signedWith: undefined,
    key: undefined,
    row: undefined,
    parameters: undefined,
    accessPoint: undefined,
    body: undefined,
    requesterPays: undefined,
    isPermitted: undefined,
    isByAcl: undefined,
    stillAuthorized: undefined,
    composedSize: undefined,
    bucket: undefined,
    isCached: undefined,
    target: undefined,
    authorizeAgain: undefined,
    authorizeKey: undefined,
  };
  return request;
}

/** Adds the facts of a stage: the only place where a request changes. */
export const establish = <R extends RequestContext, const F extends Partial<RequestContext>>(
  request: R,
  facts: F,
): R & F => Object.assign(request, facts);

/**
 * Takes a place under a rate limit. A bucket's is taken once the caller is allowed what it asks: what is refused takes no place under the
 * limit of a bucket, and is on no bill of it.
 * @throws SlowDown
 */
export function admit(
  ctx: Context,
  request: RequestContext,
  scope: () => LimitScope,
): Promise<void> | undefined {
  const limiter = ctx.caches.of(RateLimiter);
  const take = (): void => {
    establish(request, { admission: limiter.admit(ctx, request.admission, scope()) });
  };
  if (!limiter.isReady(ctx)) return limiter.open(ctx).then(take);
  if (limiter.hasLimits) take();
  return undefined;
}

const admitTo = (ctx: Context, request: RequestContext, { id }: BucketRow): Promise<void> | undefined =>
  admit(ctx, request, () => ({ kind: 'bucket', id }));

/** For a request that the caller may make; further calls change nothing. @throws SlowDown */
export function admitToBucket(ctx: Context, request: RequestContext): Promise<void> | undefined {
  const { bucket, isPermitted } = request;
  if (isPermitted === true) return undefined;
  const permitted = (): void => {
    establish(request, { isPermitted: true });
  };
  const admitting = bucket === undefined ? undefined : admitTo(ctx, request, bucket);
  if (admitting !== undefined) return admitting.then(permitted);
  permitted();
  return undefined;
}

/** For a copy that may read its source. @throws SlowDown */
export async function admitToSource(ctx: Context, request: RequestContext, source: BucketRow): Promise<void> {
  if (source.id !== request.bucket?.id) await admitTo(ctx, request, source);
}

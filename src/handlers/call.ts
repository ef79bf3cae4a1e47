/** The facts about one request, each assigned once by the pipeline; what every handler gets beside the ports. */
import type { Identity, Payload, Renew, Signed } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import { assertObject } from '../domain/read-object.ts';
import type { Recorder } from '../domain/recorder.ts';
import type { AccessPointRow } from '../metadata/access-point-tables.ts';
import type { HeadAhead } from '../metadata/objects.ts';
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';
import type { Parameters } from '../protocol/action-query.ts';
import { amz, type Dialect, store } from '../protocol/dialect.ts';
import { headerText } from '../protocol/header-text.ts';
import { isHoisted } from '../protocol/hoisted.ts';
import type { Operation, OperationName, operations } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Query, Wire } from '../protocol/wire.ts';

export interface Call {
  readonly requestId: string;
  readonly operation: OperationName;
  readonly wire: Wire;
  readonly query: Query;
  /** What an action query asks with, or the fields of a form; empty for everything else. */
  readonly parameters: Parameters;
  /** The request's own dialect; undefined when it showed none. */
  readonly dialect: Dialect | undefined;
  /** The headers of the request's dialect by bare name: see `ownHeaders`. */
  readonly own: ReadonlyMap<string, string>;
  readonly identity: Identity;
  readonly signed: Signed | undefined;
  /** Looks the caller up again, after a body that came slowly; absent for anonymous requests. */
  readonly renew?: Renew | undefined;
  /** The bucket's name; '' at service scope. */
  readonly bucketName: string;
  /** The access point that the request came through. */
  readonly accessPoint?: AccessPointRow | undefined;
  /** The object's key; '' at service and bucket scope. */
  readonly key: string;
  readonly payload: Payload;
  /** The whole body, verified, where the operation's row bounds it; else empty. */
  readonly body: Uint8Array;
  /** Goes into the commits of whatever changes something; absent where nothing may change. */
  readonly record?: Recorder | undefined;
  readonly signal: AbortSignal;
}

/** A call about a bucket that exists and that the caller may use. */
export interface BucketCall extends Call {
  readonly bucket: BucketRow;
  /** Of an operation about a version: the row, where there is one; see `targetOf`. */
  readonly target?: ObjectRow | undefined;
  /** Of an operation that decides about the head of its key: that head, where it was asked for beforehand. */
  readonly ahead?: HeadAhead | undefined;
}

/** The version that the operation is about. @throws NoSuchKey, NoSuchVersion, MethodNotAllowed for a delete marker */
export const targetOf = ({ target, key, query }: BucketCall): ObjectRow =>
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
  call: Bucketless<N> extends true ? Call : BucketCall,
) => Promise<Reply>;
export type Handlers = { readonly [N in OperationName]: HandlerOf<N> };

export const needsBucket = (operation: Operation): boolean =>
  !/^(\w+ service|OPTIONS |PUT bucket$)/.test(operation.on);

type Named = Pick<Call, 'own'>;

/** A header of the request's dialect by its bare name: `storage-class` is `x-amz-storage-class` or its neutral twin. */
export const header = ({ own }: Named, bareName: string): string | undefined => own.get(bareName);

/** The headers of the request's dialect whose bare names start with `prefix`, as `[rest of the name, value]`. */
export function headersUnder({ own }: Named, prefix: string): [string, string][] {
  const found: [string, string][] = [];
  for (const [name, value] of own)
    if (name.startsWith(prefix)) found.push([name.slice(prefix.length), value]);
  return found;
}

/**
 * The request's dialect headers by bare name. A request that shows no dialect may use either's, and the public one's
 * come first. Presigners move headers into the query, where the signature covers them: they count too (public API).
 */
export function ownHeaders(
  { headers }: Wire,
  query: Query,
  dialect: Dialect | undefined,
): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  for (const { headerPrefix } of dialect === undefined ? [amz, store] : [dialect]) {
    for (const name of headers.names()) {
      if (!name.startsWith(headerPrefix)) continue;
      const bareName = name.slice(headerPrefix.length);
      if (!own.has(bareName)) own.set(bareName, headers.get(name) ?? '');
    }
  }
  if (dialect === undefined) return own;
  for (const [name, value] of query.pairs) {
    const lower = name.toLowerCase();
    if (!lower.startsWith(dialect.headerPrefix)) continue;
    const bareName = lower.slice(dialect.headerPrefix.length);
    if (!isHoisted(bareName)) continue;
    const text = headerText(lower, value);
    if (!own.has(bareName)) own.set(bareName, text);
  }
  return own;
}

export type HeaderPair = readonly [string, string];

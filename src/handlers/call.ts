/** The facts about one request, each assigned once by the pipeline; what every handler gets beside the ports. */
import type { Identity, Payload } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { amz, type Dialect, store } from '../protocol/dialect.ts';
import type { Operation, OperationName, operations } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Query, Wire } from '../protocol/wire.ts';

export interface Call {
  readonly requestId: string;
  readonly operation: OperationName;
  readonly wire: Wire;
  readonly query: Query;
  /** The request's own dialect; undefined when it showed none. */
  readonly dialect: Dialect | undefined;
  readonly identity: Identity;
  /** The bucket's name; '' at service scope. */
  readonly bucketName: string;
  /** The object's key; '' at service and bucket scope. */
  readonly key: string;
  readonly payload: Payload;
  /** The whole body, verified, where the operation's row bounds it; else empty. */
  readonly body: Uint8Array;
  readonly signal: AbortSignal;
}

/** A call about a bucket that exists and that the caller may use. */
export interface BucketCall extends Call {
  readonly bucket: BucketRow;
}

/** Operations without an existing bucket: service scope, and the creation of one. */
type Bucketless<N extends OperationName> = (typeof operations)[N]['on'] extends
  | `${string} service${string}`
  | 'PUT bucket'
  ? true
  : false;
export type HandlerOf<N extends OperationName> = (
  ctx: Context,
  call: Bucketless<N> extends true ? Call : BucketCall,
) => Promise<Reply>;
export type Handlers = { readonly [N in OperationName]: HandlerOf<N> };

export const needsBucket = (operation: Operation): boolean =>
  !/^(\w+ service|PUT bucket$)/.test(operation.on);

/** A header of the request's dialect by its bare name: `storage-class` is `x-amz-storage-class` or its neutral twin. */
export function header(
  { wire, dialect }: Pick<Call, 'wire' | 'dialect'>,
  bareName: string,
): string | undefined {
  if (dialect !== undefined) return wire.headers.get(dialect.headerPrefix + bareName);
  return wire.headers.get(amz.headerPrefix + bareName) ?? wire.headers.get(store.headerPrefix + bareName);
}

/** The headers of the request's dialect whose bare names start with `prefix`, as `[rest of the name, value]`. */
export function headersUnder(
  { wire, dialect }: Pick<Call, 'wire' | 'dialect'>,
  prefix: string,
): [string, string][] {
  const wanted = (dialect === undefined ? [amz, store] : [dialect]).map((each) => each.headerPrefix + prefix);
  const found: [string, string][] = [];
  for (const name of wire.headers.names()) {
    const start = wanted.find((each) => name.startsWith(each));
    if (start !== undefined) found.push([name.slice(start.length), wire.headers.get(name) ?? '']);
  }
  return found;
}

export type HeaderPair = readonly [string, string];

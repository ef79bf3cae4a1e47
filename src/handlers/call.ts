/** The facts about one request, each assigned once by the pipeline; what every handler gets beside the ports. */
import type { Identity, Payload } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { amz, type Dialect, store } from '../protocol/dialect.ts';
import { headerText } from '../protocol/header-text.ts';
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
  /** Dialect headers that a presigned URL carries in its query, by lower-case name. */
  readonly hoisted: ReadonlyMap<string, string>;
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

export type Named = Pick<Call, 'wire' | 'dialect' | 'hoisted'>;

/** A header of the request's dialect by its bare name: `storage-class` is `x-amz-storage-class` or its neutral twin. */
export function header(call: Named, bareName: string): string | undefined {
  if (call.dialect !== undefined) return givenAs(call, call.dialect.headerPrefix + bareName);
  return givenAs(call, amz.headerPrefix + bareName) ?? givenAs(call, store.headerPrefix + bareName);
}
const givenAs = ({ wire, hoisted }: Named, name: string): string | undefined =>
  wire.headers.get(name) ?? (hoisted.size === 0 ? undefined : hoisted.get(name));

/** The headers of the request's dialect whose bare names start with `prefix`, as `[rest of the name, value]`. */
export function headersUnder(call: Named, prefix: string): [string, string][] {
  const { wire, dialect, hoisted } = call;
  const wanted = (dialect === undefined ? [amz, store] : [dialect]).map((each) => each.headerPrefix + prefix);
  const found: [string, string][] = [];
  for (const name of new Set([...wire.headers.names(), ...hoisted.keys()])) {
    const start = wanted.find((each) => name.startsWith(each));
    if (start !== undefined) found.push([name.slice(start.length), givenAs(call, name) ?? '']);
  }
  return found;
}

const none: ReadonlyMap<string, string> = new Map();
/** Of the signature itself, or about a body that nobody knew when the URL was signed. */
const notHoisted =
  /^(algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|user-agent|sdk-checksum-algorithm|checksum-(crc32|crc32c|crc64nvme|sha1|sha256))$/;

/** Presigners move headers into the query, where the signature covers them: they count as headers (public API). */
export function hoistedHeaders(query: Query, dialect: Dialect | undefined): ReadonlyMap<string, string> {
  if (dialect === undefined) return none;
  const found = query.pairs.flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    const isHeader =
      lower.startsWith(dialect.headerPrefix) && !notHoisted.test(lower.slice(dialect.headerPrefix.length));
    return isHeader ? [[lower, headerText(lower, value)] as const] : [];
  });
  return found.length === 0 ? none : new Map(found);
}

export type HeaderPair = readonly [string, string];

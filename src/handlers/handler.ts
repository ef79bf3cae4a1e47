/** A handler: a function from an authorized request to its reply. */
import type { Caller } from '../auth/authorize.ts';
import type { Identity } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import type { RecordedFields, Recorder } from '../domain/common/recorder.ts';
import { assertObject } from '../domain/objects/read-object.ts';
import type { ObjectRow } from '../metadata/tables.ts';
import { encodeXml, type Xml } from '../protocol/formats/codec.ts';
import type { Operation, OperationName, operations } from '../protocol/operations/operations.ts';
import type { HeaderPair, Reply } from '../protocol/reply.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import type { ReadFacts } from '../request/body.ts';
import type { Authorized, AuthorizedInBucket, FindAsked } from '../request/request.ts';

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

/** A handler whose body is read before its authorization, because policies decide on what is in it. */
export interface WithFacts<N extends OperationName> {
  readonly handle: HandlerOf<N>;
  readonly facts: ReadFacts;
}
type Entry<N extends OperationName> = HandlerOf<N> | WithFacts<N>;
export type Handlers = { readonly [N in OperationName]: Entry<N> };

/** What reads facts from the body for the authorization of an operation; undefined for a body that is read after it, or not at all. */
export const factsReader = (entry: Handlers[OperationName]): ReadFacts | undefined =>
  typeof entry === 'function' ? undefined : entry.facts;

/** The handler of an operation. The cast: `needsBucket` says at run time which parameters a handler has. */
export const handlerOf = (entry: Handlers[OperationName]) =>
  (typeof entry === 'function' ? entry : entry.handle) as (
    ctx: Context,
    request: Authorized,
  ) => Promise<Reply>;

export const needsBucket = (operation: Operation): boolean =>
  !/^(\w+ service|OPTIONS |PUT bucket$)/.test(operation.on);

/** The operator API with its console as one value, so that a bundle without it has none of its code. */
export interface AdminApi {
  /** Answers the other processes of the node, from the start. */
  share(ctx: Context): void;
  serveConsole(ctx: Context, wire: Wire, place: ConsolePlace): Promise<Reply>;
  /** Loads the operations: a process that no operator asks never evaluates their tables. */
  open(): Promise<AdminOperations>;
}

export interface ConsolePlace {
  /** Local. */
  readonly path: string;
  /** Where the gateway is mounted, '' or a path such as `/s3`. */
  readonly basePath: string;
}

export interface AdminOperations {
  readonly find: FindAsked;
  /** Adds the routes. */
  register(router: AreaRouter): void;
}

/** A request as the router hands it on. */
export interface RoutedRequest {
  readonly url: string;
  /** The parameters of its path. */
  readonly params: Readonly<Record<string, string>>;
}

type AddRoute = (
  path: string,
  handle: (request: RoutedRequest, call: AreaRequest, view: Context) => Promise<Reply>,
) => unknown;

/** What areas use of the router. Its own types are left out, because they do not compile in a package that depends on this one. */
export type AreaRouter = Readonly<Record<'all' | 'get' | 'put' | 'post' | 'patch' | 'delete', AddRoute>>;

// A request to an area outside of the storage protocol, as its handlers get it.

export interface AreaRequest {
  readonly requestId: string;
  readonly wire: Wire;
  readonly query: Query;
  /** The caller, as it is since the body has arrived. */
  readonly identity: Identity;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** Who asks, for decisions about an operation of an area. */
  callerOf(operation: string): Caller;
  /**
   * The whole body, verified. Authorize the caller again afterwards.
   * @param max its longest length in bytes; `bodyMaxDefault` unless given
   * @throws InvalidAccessKeyId for a key that was made inactive
   */
  readBody(max?: number): Promise<Uint8Array>;
  /** Reports the operation to the pipeline, and returns the recorder for its commits if it may change something. */
  asked(
    action: string,
    about: {
      readonly audited: boolean;
      readonly bucketName: string;
      /** The fields of a configuration whose changes the audit row shows. */
      readonly recorded?: RecordedFields;
    },
  ): Recorder | undefined;
}

// Replies with an XML body.

export function xmlReply<T>(
  schema: Xml<T>,
  root: string,
  value: T,
  headers: readonly HeaderPair[] = [],
): Reply {
  return {
    status: 200,
    headers: [['Content-Type', 'application/xml'], ...headers],
    body: encodeXml(schema, root, value),
  };
}

export const emptyReply = (status: number, headers: readonly HeaderPair[] = []): Reply => ({
  status,
  headers,
});

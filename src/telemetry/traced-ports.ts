/** A view of the ports for one trace: the same ports, whose calls are recorded as its spans. */
import type { KeyProvider } from '../ports/key-provider.ts';
import type {
  AnyTable,
  At,
  Change,
  ColumnOf,
  CommitOptions,
  Cursor,
  MetadataStore,
  Op,
  Range,
  RowOf,
  SideChange,
  SortOf,
} from '../ports/metadata-store.ts';
import type { ByteRange, Extent, ObjectBytes, UploadBytes, WriteOptions } from '../ports/object-bytes.ts';
import type { PeerRequests } from '../ports/peer-requests.ts';
import type { CallUse, Cause } from '../ports/trace.ts';

/** The ports of a context that requests call. */
interface Traceable {
  readonly metadata?: MetadataStore;
  readonly bytes?: ObjectBytes;
  readonly keys?: KeyProvider;
  readonly peers?: PeerRequests;
}

/**
 * Replaces the ports of a copy of the context. They are assigned, because a copy that is made from two objects has slow properties, and
 * a request reads its context some hundred times.
 */
export function assignPorts<V extends object>(view: V, ports: Traceable, trace: CallRecorder): V {
  const { metadata, bytes, keys, peers } = ports;
  const target: { -readonly [P in keyof Traceable]: Traceable[P] } = view;
  if (metadata !== undefined) target.metadata = new TracedMetadata(metadata, trace);
  if (bytes !== undefined) target.bytes = new TracedBytes(bytes, trace);
  if (keys !== undefined) target.keys = new Proxy(keys, new KeyCalls(trace));
  if (peers !== undefined) target.peers = new TracedPeers(peers, trace);
  return view;
}

/** Calls, and which of their arguments says what they are for. */
const keyCalls: ReadonlyMap<PropertyKey, number> = new Map([
  ['describe', 1],
  ['generate', 2],
  ['wrap', 3],
  ['unwrap', 2],
  ['rewrap', 2],
]);

/** Of a proxy, because providers have further methods, and state of their own. */
class KeyCalls implements ProxyHandler<KeyProvider> {
  readonly #trace: CallRecorder;

  constructor(trace: CallRecorder) {
    this.#trace = trace;
  }

  get(provider: KeyProvider, name: PropertyKey): unknown {
    const member: unknown = Reflect.get(provider, name);
    if (typeof member !== 'function') return member;
    const at = keyCalls.get(name);
    if (at === undefined) return member.bind(provider);
    return (...input: readonly unknown[]) =>
      this.#trace.call(`keys.${String(name)}`, 'provider', (cause) =>
        Reflect.apply(member, provider, [
          ...input.slice(0, at),
          { ...(input[at] as CallUse | undefined), cause },
        ]),
      );
  }
}

class TracedPeers implements PeerRequests {
  readonly #peers: PeerRequests;
  readonly #trace: CallRecorder;

  constructor(peers: PeerRequests, trace: CallRecorder) {
    this.#peers = peers;
    this.#trace = trace;
  }

  ask(...[access, request]: Parameters<PeerRequests['ask']>) {
    return this.#trace.call(`peer.${request.method}`, access.endpoint, (cause) =>
      this.#peers.ask(access, { ...request, cause }),
    );
  }

  send(...[access, request, signal]: Parameters<PeerRequests['send']>) {
    return this.#trace.call(`peer.${request.method}`, access.endpoint, (cause) =>
      this.#peers.send(access, { ...request, cause }, signal),
    );
  }

  close() {
    return this.#peers.close();
  }
}

// Object bytes as one trace sees them: a write is one span, a read one until its first bytes.

class TracedBytes implements ObjectBytes {
  readonly #bytes: ObjectBytes;
  readonly #trace: CallRecorder;

  constructor(bytes: ObjectBytes, trace: CallRecorder) {
    this.#bytes = bytes;
    this.#trace = trace;
  }

  get clusters() {
    return this.#bytes.clusters;
  }
  get pieceBytes() {
    return this.#bytes.pieceBytes;
  }
  get uploads() {
    return this.#bytes.uploads && tracedUploads(this.#bytes.uploads, this.#trace);
  }
  get marks() {
    return this.#bytes.marks;
  }
  get foreign() {
    return this.#bytes.foreign;
  }
  get removals() {
    return this.#bytes.removals;
  }
  get verifies() {
    return this.#bytes.verifies?.bind(this.#bytes);
  }
  get compact() {
    return this.#bytes.compact?.bind(this.#bytes);
  }

  write(source: AsyncIterable<Uint8Array>, options: WriteOptions) {
    const cause = this.#trace.begin('data.write', options.cluster);
    return this.#trace.follow(
      cause,
      this.#bytes.write(source, cause === undefined ? options : { ...options, cause }),
    );
  }

  read(extent: Extent, range?: ByteRange, signal?: AbortSignal, use?: CallUse): AsyncIterable<Uint8Array> {
    return new TracedRead(this.#bytes, this.#trace, { extent, range, signal, use });
  }

  remove(extents: readonly Extent[]) {
    return this.#trace.follow(
      this.#trace.begin('data.remove', extents[0]?.cluster ?? 'none'),
      this.#bytes.remove(extents),
    );
  }
  find(cluster: string, ...prefixes: readonly string[]) {
    return this.#bytes.find(cluster, ...prefixes);
  }
  holdsAnything(cluster: string) {
    return this.#bytes.holdsAnything(cluster);
  }
  isStored(extent: Extent) {
    return this.#trace.follow(
      this.#trace.begin('data.isStored', extent.cluster),
      this.#bytes.isStored(extent),
    );
  }
  health(cluster?: string) {
    return this.#bytes.health(cluster);
  }
  close() {
    return this.#bytes.close();
  }
}

interface Asked {
  readonly extent: Extent;
  readonly range: ByteRange | undefined;
  readonly signal: AbortSignal | undefined;
  readonly use: CallUse | undefined;
}

/** The first bytes are one span; the rest comes at the pace of its reader. */
class TracedRead implements AsyncIterableIterator<Uint8Array> {
  readonly #bytes: ObjectBytes;
  readonly #trace: CallRecorder;
  readonly #asked: Asked;
  #iterator: AsyncIterator<Uint8Array> | undefined;

  constructor(bytes: ObjectBytes, trace: CallRecorder, asked: Asked) {
    this.#bytes = bytes;
    this.#trace = trace;
    this.#asked = asked;
  }

  /** A second reader begins anew. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    return this.#iterator === undefined ? this : new TracedRead(this.#bytes, this.#trace, this.#asked);
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#iterator !== undefined) return this.#iterator.next();
    const { extent, range, signal, use } = this.#asked;
    const span = this.#trace.begin('data.read', extent.cluster);
    const traced = span === undefined ? use : { ...use, cause: span };
    this.#iterator = this.#bytes.read(extent, range, signal, traced)[Symbol.asyncIterator]();
    return this.#trace.follow(span, this.#iterator.next());
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    return (await this.#iterator?.return?.()) ?? { value: undefined, done: true };
  }
}

const tracedUploads = (uploads: UploadBytes, trace: CallRecorder): UploadBytes => ({
  begin(options) {
    const cause = trace.begin('data.beginUpload', options.cluster);
    return trace.follow(cause, uploads.begin({ ...options, cause }));
  },
  writePart(source, options) {
    const cause = trace.begin('data.writePart', options.upload.cluster);
    return trace.follow(cause, uploads.writePart(source, { ...options, cause }));
  },
  complete(upload, parts, use) {
    const cause = trace.begin('data.completeUpload', upload.cluster);
    return trace.follow(cause, uploads.complete(upload, parts, { ...use, cause }));
  },
  discard(upload, use) {
    const cause = trace.begin('data.discardUpload', upload.cluster);
    return trace.follow(cause, uploads.discard(upload, { ...use, cause }));
  },
});

// Metadata as one trace sees it. A class, because an object is made for every request.

class TracedMetadata implements MetadataStore {
  readonly behind: MetadataStore;
  readonly #trace: CallRecorder;

  constructor(store: MetadataStore, trace: CallRecorder) {
    this.behind = store;
    this.#trace = trace;
  }

  get isDistant(): boolean {
    return this.behind.isDistant;
  }

  get<T extends AnyTable>(at: At<T>, key: SortOf<T>) {
    return this.#trace.follow(this.#trace.begin('metadata.get', at.table.name), this.behind.get(at, key));
  }

  scan<T extends AnyTable, C extends ColumnOf<T> = ColumnOf<T>>(at: At<T>, range?: Range<T, C>) {
    const cursor = this.behind.scan(at, range);
    const traced: typeof cursor = {
      next: (count) =>
        this.#trace.follow(this.#trace.begin('metadata.scan', at.table.name), cursor.next(count)),
      seek: (key: Parameters<Cursor<T>['seek']>[0], options) => cursor.seek(key, options),
    };
    return traced;
  }

  begin(intent: { readonly cluster: string }) {
    return this.#trace.follow(this.#trace.begin('metadata.begin', intent.cluster), this.behind.begin(intent));
  }

  commit<T extends AnyTable>(at: At<T>, changes: readonly Change<T>[], options?: CommitOptions) {
    const span = this.#trace.begin('metadata.commit', at.table.name);
    return this.#trace.follow(span, this.behind.commit(at, changes, options));
  }

  end(op: Op) {
    return this.behind.end(op);
  }

  abort(opId: string) {
    return this.#trace.follow(this.#trace.begin('metadata.abort', 'ops'), this.behind.abort(opId));
  }

  isOpen(opId: string) {
    return this.#trace.follow(this.#trace.begin('metadata.isOpen', 'ops'), this.behind.isOpen(opId));
  }

  abandoned() {
    return this.behind.abandoned();
  }

  settle(intent: Parameters<MetadataStore['settle']>[0]) {
    return this.behind.settle(intent);
  }

  hasPendingAdditions<T extends AnyTable>(at: At<T>) {
    return this.behind.hasPendingAdditions(at);
  }

  get replaceDamaged() {
    return this.behind.replaceDamaged?.bind(this.behind);
  }

  get hasPendingPuts() {
    return this.behind.hasPendingPuts?.bind(this.behind);
  }

  apply(changes: readonly SideChange[]) {
    const table = changes[0]?.at.table.name ?? 'nothing';
    return this.#trace.follow(this.#trace.begin('metadata.apply', table), this.behind.apply(changes));
  }

  update<T extends AnyTable>(at: At<T>, key: SortOf<T>, change: (row: RowOf<T> | undefined) => RowOf<T>) {
    return this.#trace.follow(
      this.#trace.begin('metadata.update', at.table.name),
      this.behind.update(at, key, change),
    );
  }

  clear<T extends AnyTable>(at: At<T>, range: Range<T>) {
    return this.#trace.follow(
      this.#trace.begin('metadata.clear', at.table.name),
      this.behind.clear(at, range),
    );
  }

  fence<T extends AnyTable>(at: At<T>) {
    return this.#trace.follow(this.#trace.begin('metadata.fence', at.table.name), this.behind.fence(at));
  }

  raiseFence<T extends AnyTable>(at: At<T>, generation: number) {
    return this.#trace.follow(
      this.#trace.begin('metadata.raiseFence', at.table.name),
      this.behind.raiseFence(at, generation),
    );
  }

  get split() {
    return this.behind.split?.bind(this.behind);
  }

  get verify() {
    return this.behind.verify?.bind(this.behind);
  }

  get watchCommits() {
    return this.behind.watchCommits?.bind(this.behind);
  }

  now() {
    return this.behind.now();
  }

  health() {
    return this.#trace.follow(this.#trace.begin('metadata.health', 'store'), this.behind.health());
  }

  close() {
    return this.behind.close();
  }
}

// What the views of the ports need of a trace.

export interface CallRecorder {
  /**
   * Records a call until its promise settles, whichever way.
   * @param about the table, cluster or server; not empty
   */
  call<T>(name: string, about: string, run: (span: Cause | undefined) => Promise<T>): Promise<T>;
  /**
   * The same for a backend that is usually measured, with one reading of the clock for both, and without a closure:
   * `follow(begin(name, about), call)`, where the call is made after `begin` and before anything else is called.
   */
  begin(name: string, about: string): Cause | undefined;
  follow<T>(span: Cause | undefined, running: Promise<T>): Promise<T>;
}

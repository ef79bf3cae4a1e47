/** Backends whose calls are measured: `metadata.commit`, `data.write` and so on, in `svc_backend_duration_seconds`, and failures counted. */
import type { Clock } from '../ports/clock.ts';
import type { AnyTable, MetadataStore } from '../ports/metadata-store.ts';
import type { ObjectBytes, UploadBytes } from '../ports/storage/object-bytes.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { backendFaultOf } from './parts/backend-fault.ts';
import { failSpan, takeSpan } from './tracing/hand-over.ts';

interface Measure {
  readonly telemetry: Pick<Telemetry, 'backend' | 'backendFailed'>;
  readonly clock: Pick<Clock, 'elapsed'>;
}

type Timed = <T>(call: string, run: () => Promise<T>) => Promise<T>;

/** Measures until a promise settles, whichever way: slow failures are what one looks for. */
function timer({ telemetry, clock }: Measure): Timed {
  return <T>(call: string, run: () => Promise<T>): Promise<T> => {
    const span = takeSpan();
    const startedAt = clock.elapsed();
    if (span !== undefined) span.startedAt = startedAt;
    const running = run();
    const settled = (): void => {
      const now = clock.elapsed();
      telemetry.backend(call, now - startedAt);
      if (span !== undefined) span.endedAt = now;
    };
    // Beside the promise and not around it: there are some of these calls in every request.
    running.then(settled, (cause: unknown) => {
      settled();
      if (span !== undefined) failSpan(span, span.endedAt, cause);
      const why = backendFaultOf(cause);
      if (why !== undefined) telemetry.backendFailed(call, why);
    });
    return running;
  };
}

export function timedMetadata(store: MetadataStore, measure: Measure): MetadataStore {
  const timed = timer(measure);
  const split = store.split?.bind(store);
  const hasPendingPuts = store.hasPendingPuts?.bind(store);
  return {
    isDistant: store.isDistant,
    get: (at, key) => timed('metadata.get', () => store.get(at, key)),
    scan(at, range) {
      const cursor = store.scan(at, range);
      return {
        next: (count) => timed('metadata.scan', () => cursor.next(count)),
        seek: (key, options) => cursor.seek(key, options),
      };
    },
    begin: (intent) => timed('metadata.begin', () => store.begin(intent)),
    commit: (at, changes, options) => timed('metadata.commit', () => store.commit(at, changes, options)),
    // No store is called.
    end: (op) => store.end(op),
    abort: (opId) => timed('metadata.abort', () => store.abort(opId)),
    isOpen: (opId) => timed('metadata.isOpen', () => store.isOpen(opId)),
    abandoned: () => timed('metadata.abandoned', () => store.abandoned()),
    settle: (intent) => timed('metadata.settle', () => store.settle(intent)),
    hasPendingAdditions: (at) => timed('metadata.hasPendingAdditions', () => store.hasPendingAdditions(at)),
    ...(hasPendingPuts && {
      hasPendingPuts: (table: AnyTable) => timed('metadata.hasPendingPuts', () => hasPendingPuts(table)),
    }),
    apply: (changes) => timed('metadata.apply', () => store.apply(changes)),
    update: (at, key, change) => timed('metadata.update', () => store.update(at, key, change)),
    clear: (at, range) => timed('metadata.clear', () => store.clear(at, range)),
    fence: (at) => timed('metadata.fence', () => store.fence(at)),
    raiseFence: (at, generation) => timed('metadata.raiseFence', () => store.raiseFence(at, generation)),
    split: split && ((at, shard) => timed('metadata.split', () => split(at, shard))),
    ...(store.verify === undefined ? {} : { verify: store.verify.bind(store) }),
    ...(store.everyRow === undefined ? {} : { everyRow: store.everyRow.bind(store) }),
    ...(store.copyTo === undefined ? {} : { copyTo: store.copyTo.bind(store) }),
    ...(store.watchCommits === undefined ? {} : { watchCommits: store.watchCommits.bind(store) }),
    now: () => store.now(),
    health: () => timed('metadata.health', () => store.health()),
    close: () => store.close(),
  };
}

/** A write is measured whole, the pace of its source included; a read until its first bytes. */
export function timedBytes(bytes: ObjectBytes, measure: Measure): ObjectBytes {
  const timed = timer(measure);
  const compact = bytes.compact?.bind(bytes);
  return {
    clusters: bytes.clusters,
    pieceBytes: bytes.pieceBytes,
    uploads: bytes.uploads && timedUploads(bytes.uploads, timed),
    ...(bytes.verifies === undefined ? {} : { verifies: bytes.verifies.bind(bytes) }),
    foreign: bytes.foreign,
    removals: bytes.removals,
    write: (source, options) => timed('data.write', () => bytes.write(source, options)),
    read: (extent, range, signal, cause) => ({
      [Symbol.asyncIterator]() {
        const iterator = bytes.read(extent, range, signal, cause)[Symbol.asyncIterator]();
        let isFirst = true;
        return {
          next() {
            if (!isFirst) return iterator.next();
            isFirst = false;
            return timed('data.read', () => iterator.next());
          },
          return: async (value) => (await iterator.return?.(value)) ?? { value, done: true },
        };
      },
    }),
    remove: (extents) => timed('data.remove', () => bytes.remove(extents)),
    find: (cluster, ...prefixes) => bytes.find(cluster, ...prefixes),
    holdsAnything: (cluster) => timed('data.holdsAnything', () => bytes.holdsAnything(cluster)),
    isStored: (extent) => timed('data.isStored', () => bytes.isStored(extent)),
    ...(compact === undefined ? {} : { compact: (signal) => timed('data.compact', () => compact(signal)) }),
    health: () => timed('data.health', () => bytes.health()),
    close: () => bytes.close(),
  };
}

const timedUploads = (uploads: UploadBytes, timed: Timed): UploadBytes => ({
  begin: (options) => timed('data.beginUpload', () => uploads.begin(options)),
  writePart: (source, options) => timed('data.writePart', () => uploads.writePart(source, options)),
  complete: (upload, parts, cause) =>
    timed('data.completeUpload', () => uploads.complete(upload, parts, cause)),
  discard: (upload, cause) => timed('data.discardUpload', () => uploads.discard(upload, cause)),
});

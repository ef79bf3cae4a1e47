/**
 * Backends whose calls are measured: `metadata.commit`, `data.write` and so on, in `svc_backend_duration_seconds`, and
 * failures counted.
 */

import { Refusal } from '../base/errors.ts';
import { isStorageFull, isStorageReadOnly } from '../ports/chunk-store.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type AnyTable,
  MetadataDamaged,
  type MetadataStore,
  StoreRefused,
  StoreUnavailable,
} from '../ports/metadata-store.ts';
import {
  ChunkDamaged,
  ChunkMissing,
  type ClusterHealth,
  ContentMismatch,
  DataUnavailable,
  type ObjectBytes,
  PartsChanged,
  type UploadBytes,
  UploadGone,
} from '../ports/object-bytes.ts';
import type { MetricLabels, Telemetry } from '../ports/telemetry.ts';

interface Measure {
  readonly telemetry: Pick<Telemetry, 'count' | 'observe' | 'log'>;
  readonly clock: Pick<Clock, 'elapsed'>;
}

type Labels = MetricLabels<'svc_backend_duration_seconds'>;
type Timed = <T>(call: string, run: () => Promise<T>) => Promise<T>;

function countFault(telemetry: Pick<Telemetry, 'count'>, call: string, cause: unknown): void {
  const why = classifyFault(cause);
  if (why !== undefined) telemetry.count('svc_backend_errors_total', { call, why });
}

/** Measures until a promise settles, whichever way: slow failures are what one looks for. */
function timer({ telemetry, clock }: Measure): Timed {
  const labelsByCall = new Map<string, Labels>();
  const add = (call: string): Labels => {
    const labels = { call };
    labelsByCall.set(call, labels);
    return labels;
  };
  return <T>(call: string, run: () => Promise<T>): Promise<T> => {
    // One object for each name of a call, so that the calls themselves, several in every request, allocate none.
    const labels = labelsByCall.get(call) ?? add(call);
    const span = takeSpan();
    const startedAt = clock.elapsed();
    if (span !== undefined) span.startedAt = startedAt;
    const running = run();
    const settled = (): void => {
      const now = clock.elapsed();
      telemetry.observe('svc_backend_duration_seconds', labels, (now - startedAt) / 1000);
      if (span !== undefined) span.endedAt = now;
    };
    // The caller gets the promise of the backend itself: an async function would allocate another one for each call.
    running.then(settled, (cause: unknown) => {
      settled();
      if (span !== undefined) failSpan(span, span.endedAt, cause);
      countFault(telemetry, call, cause);
    });
    return running;
  };
}

export function timedMetadata(store: MetadataStore, measure: Measure): MetadataStore {
  const timed = timer(measure);
  const split = store.split?.bind(store);
  const hasPendingPuts = store.hasPendingPuts?.bind(store);
  const replaceDamaged: MetadataStore['replaceDamaged'] = store.replaceDamaged?.bind(store);
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
    ...(replaceDamaged && {
      replaceDamaged: (at, row, expiresAt) =>
        timed('metadata.replaceDamaged', async () => {
          const isReplaced = await replaceDamaged(at, row, expiresAt);
          // Its former content is lost.
          if (isReplaced)
            measure.telemetry.log(
              'ERROR',
              'a damaged row of the metadata was replaced or removed: see docs/recovery.md',
              { table: at.table.name, row: nameRow(at.table, row) },
            );
          return isReplaced;
        }),
    }),
    ...(store.verify === undefined ? {} : { verify: store.verify.bind(store) }),
    ...(store.everyRow === undefined ? {} : { everyRow: store.everyRow.bind(store) }),
    ...(store.copyTo === undefined ? {} : { copyTo: store.copyTo.bind(store) }),
    ...(store.watchCommits === undefined ? {} : { watchCommits: store.watchCommits.bind(store) }),
    now: () => store.now(),
    health: () => timed('metadata.health', () => store.health()),
    close: () => store.close(),
  };
}

/** The columns of its key. */
function nameRow({ partition, sort }: AnyTable, row: object): string {
  const columns = row as Readonly<Record<string, unknown>>;
  return [...partition, ...sort].map((column) => columns[column.replace(/^-/, '')]).join('/');
}

/** A write is measured whole, the pace of its source included; a read until its first bytes, but failures of later ones are counted. */
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
    read: (extent, range, signal, use) => ({
      [Symbol.asyncIterator]() {
        const iterator = bytes.read(extent, range, signal, use)[Symbol.asyncIterator]();
        let isFirst = true;
        return {
          next() {
            if (!isFirst) {
              const piece = iterator.next();
              piece.catch((cause: unknown) => countFault(measure.telemetry, 'data.read', cause));
              return piece;
            }
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
    health: (cluster) => timed('data.health', () => bytes.health(cluster)),
    close: () => bytes.close(),
  };
}

const timedUploads = (uploads: UploadBytes, timed: Timed): UploadBytes => ({
  begin: (options) => timed('data.beginUpload', () => uploads.begin(options)),
  writePart: (source, options) => timed('data.writePart', () => uploads.writePart(source, options)),
  complete: (upload, parts, use) => timed('data.completeUpload', () => uploads.complete(upload, parts, use)),
  discard: (upload, use) => timed('data.discardUpload', () => uploads.discard(upload, use)),
});

// Says why a call to a backend failed, for `svc_backend_errors_total`.

type BackendFault =
  | 'timeout'
  | 'unavailable'
  | 'refused'
  | 'full'
  | 'read-only'
  | 'damaged'
  | 'missing'
  | 'other';

type Kind = abstract new (...parameters: never[]) => Error;

/** The client's doing, or an outcome that the caller expects. */
const expected: readonly Kind[] = [Refusal, ContentMismatch, PartsChanged, UploadGone];
const kinds: readonly (readonly [Kind, BackendFault])[] = [
  [StoreUnavailable, 'unavailable'],
  [DataUnavailable, 'unavailable'],
  [StoreRefused, 'refused'],
  [MetadataDamaged, 'damaged'],
  [ChunkDamaged, 'damaged'],
  [ChunkMissing, 'missing'],
];
const depthMax = 8;

/** @returns undefined where the backend is not at fault: a client broke off, or its content was refused */
export function classifyFault(cause: unknown): BackendFault | undefined {
  if (isStorageFull(cause)) return 'full';
  if (isStorageReadOnly(cause)) return 'read-only';
  const chain = listCauses(cause);
  if (chain.some((each) => isAbort(each) || expected.some((kind) => each instanceof kind))) return undefined;
  if (chain.some(isTimeout)) return 'timeout';
  for (const each of chain) for (const [kind, why] of kinds) if (each instanceof kind) return why;
  return 'other';
}

function listCauses(error: unknown): readonly Error[] {
  const chain: Error[] = [];
  for (let at = error; at instanceof Error && chain.length < depthMax; at = at.cause) chain.push(at);
  return chain;
}

const isAbort = ({ name }: Error): boolean => name === 'AbortError';

const timeoutCodes: ReadonlySet<unknown> = new Set([
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  110,
]);

/** Drivers of engines have no common class for it. */
const isTimeout = (error: Error): boolean =>
  error.name === 'TimeoutError' ||
  timeoutCodes.has((error as { readonly code?: unknown }).code) ||
  /time(?:d[ -]?)?[ -]?out|deadline exceeded|no answer (?:in|with)/i.test(error.message);

// The data clusters in metrics: whether they are up, and what they hold.

const freshMs = 60_000;
/** What does not answer in this time is shown by a later reading. */
const waitMs = 1_000;

interface Ports {
  readonly bytes: Pick<ObjectBytes, 'health'>;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'replace'>;
}

/** Probes at most once a minute, and only while metrics are read. */
export function measureClusters({ bytes, clock, telemetry }: Ports): () => Promise<void> {
  let last: { readonly at: number; readonly probe: Promise<void> } | undefined;
  const probe = async (): Promise<void> => {
    const clusters = (await bytes.health()).map(measure);
    const pools = clusters.flatMap(({ cluster, pools }) => pools.map((each) => ({ cluster, ...each })));
    telemetry.replace(
      'svc_cluster_up',
      clusters.map(({ cluster, isUp }) => [{ cluster }, isUp ? 1 : 0]),
    );
    telemetry.replace(
      'svc_cluster_used_bytes',
      pools.map(({ cluster, pool, usedBytes }) => [{ cluster, pool }, usedBytes]),
    );
    telemetry.replace(
      'svc_cluster_free_bytes',
      pools.flatMap(({ cluster, pool, freeBytes }) =>
        freeBytes === undefined ? [] : [[{ cluster, pool }, freeBytes] as const],
      ),
    );
  };
  return async () => {
    const now = clock.elapsed();
    if (last === undefined || now - last.at >= freshMs) last = { at: now, probe: probe().catch(() => {}) };
    const waited = new AbortController();
    await Promise.race([last.probe, clock.sleep(waitMs, waited.signal)]);
    waited.abort();
  };
}

const healthy: ReadonlySet<string> = new Set(['ok', 'HEALTH_OK']);

const measure = ({ cluster, status, pools }: ClusterHealth) => ({
  cluster,
  isUp: healthy.has(status) && pools.every(({ state }) => state !== 'error'),
  // What a pool that cannot be read holds is unknown, not 0.
  pools: pools
    .filter(({ state }) => state !== 'error')
    .map(({ pool, namespace, bytesUsed, bytesFree }) => ({
      pool: namespace === '' ? pool : `${pool}/${namespace}`,
      usedBytes: bytesUsed,
      freeBytes: bytesFree,
    })),
});

/**
 * The span of a call that is about to be measured. Every call of a backend is recorded and measured, so the code that
 * measures it also ends the span: a second reaction to the promise of each call would cost as much as the rest of a
 * trace. Set and taken synchronously.
 */
interface OpenSpan {
  /** By the monotonic clock. */
  startedAt: number;
  /** By the monotonic clock. */
  endedAt: number;
  error: string;
}

export const handOver: { span: OpenSpan | undefined } = { span: undefined };

/** The span of the present call, once. */
export function takeSpan(): OpenSpan | undefined {
  const { span } = handOver;
  handOver.span = undefined;
  return span;
}

export function failSpan(span: OpenSpan, endedAt: number, cause: unknown): void {
  span.endedAt = endedAt;
  span.error = cause instanceof Error ? cause.constructor.name : 'Error';
}

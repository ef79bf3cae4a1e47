/** The data clusters in metrics: whether they are up, and what they hold. */
import type { Clock } from '../../ports/clock.ts';
import type { ClusterHealth, ObjectBytes } from '../../ports/storage/object-bytes.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

const freshMs = 60_000;
/** What does not answer in this time is shown by a later reading. */
const waitMs = 1_000;

interface Ports {
  readonly bytes: Pick<ObjectBytes, 'health'>;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'clusters'>;
}

/** Probes at most once a minute, and only while metrics are read. */
export function measureClusters({ bytes, clock, telemetry }: Ports): () => Promise<void> {
  let last: { readonly at: number; readonly probe: Promise<void> } | undefined;
  const probe = async (): Promise<void> => telemetry.clusters((await bytes.health()).map(measure));
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

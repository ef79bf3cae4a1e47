/** Which cluster takes a write (spec items 8 and 9). */
import type { Context } from '../context.ts';
import { fnv32a } from '../metadata/spread.ts';

/**
 * Picks a cluster by weight, deterministically over its inputs (design §7.7).
 * @param policy cluster id to weight @param exclude clusters that take no writes @param seed the write's id
 */
export function pick(
  policy: ReadonlyMap<string, number>,
  exclude: ReadonlySet<string>,
  seed: string,
): string | undefined {
  const wheel = [...policy]
    .filter(([id, weight]) => weight > 0 && !exclude.has(id))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const total = wheel.reduce((sum, [, weight]) => sum + weight, 0);
  let at = total * fraction(seed);
  for (const [id, weight] of wheel) {
    if (at < weight) return id;
    at -= weight;
  }
  return wheel.at(-1)?.[0];
}

/** A number in [0, 1) from FNV-1a of the seed, mixed so that consecutive ids spread. */
function fraction(seed: string): number {
  let hash = fnv32a(seed);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}

const defaultWeight = 100;

/** The cluster for one write: every configured cluster is live until cluster states exist. */
export function placeWrite({ bytes }: Pick<Context, 'bytes'>, seed: string): string {
  const [only, second] = bytes.clusters;
  if (only !== undefined && second === undefined) return only;
  const policy = new Map(bytes.clusters.map((cluster) => [cluster, defaultWeight]));
  const cluster = pick(policy, new Set(), seed);
  if (cluster === undefined) throw new Error('no data cluster is configured');
  return cluster;
}

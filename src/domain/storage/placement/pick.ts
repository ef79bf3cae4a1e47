/** Picks a cluster; deterministic for a policy, an exclude set and the write's id. */
import { fnv32a } from '../../../base/shard.ts';

/**
 * Weighted rendezvous hashing: every cluster draws a number from the seed, and its weight makes it likelier to be the highest. So the
 * order of the policy does not matter, and when a cluster is removed or its weight changes, only its own share moves.
 * @param policy cluster id to weight @param exclude clusters that take no writes @param seed the write's id
 */
export function pick(
  policy: ReadonlyMap<string, number>,
  exclude: ReadonlySet<string>,
  seed: string,
): string | undefined {
  const drawn = fnv32a(seed);
  let best: string | undefined;
  let highest = Number.NEGATIVE_INFINITY;
  for (const [id, weight] of policy) {
    if (weight <= 0 || exclude.has(id)) continue;
    const score = Math.log(fraction(drawn ^ mixed(fnv32a(id)))) / weight;
    if (score < highest || (score === highest && best !== undefined && best < id)) continue;
    highest = score;
    best = id;
  }
  return best;
}

/** Above 0 and below 1. */
const fraction = (number: number): number => (mixed(number) + 0.5) / 2 ** 32;

/** Every bit of the number affects every bit of the result (the finalizer of MurmurHash3). */
function mixed(number: number): number {
  let hash = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Finds a place of a request whose CPU time grows faster than the length of the text there. */
import { cpuMsOf } from '../support/cpu-time.ts';
import type { Client } from '../support/gateway-client.ts';
import { type Place, runs } from './long-runs.ts';

/**
 * The factor by which the texts are longer, and the multiple of the linear time that is tolerated. Shorter texts come first, so
 * that a place whose time grows with a power of the length fails within seconds.
 */
const growths = [
  { growth: 4, slack: 2 },
  { growth: 16, slack: 4 },
];
/** Allows for compilation and garbage collection during a measurement. */
const floorMs = 120;
/** Longer than any garbage collection: a measurement that exceeds the bound by this is not repeated. */
const collectionMs = 1_000;

const least = async (work: () => Promise<unknown>): Promise<number> => {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3; round += 1) least = Math.min(least, await cpuMsOf(work));
  return least;
};

/** @returns the first place whose time grows faster than linear, with its figures */
export async function steepPlace(
  places: readonly Place[],
  client: Client,
  bytes: number,
): Promise<string | undefined> {
  const short = new Map(runs(bytes));
  const longer = growths.map((each) => ({ ...each, texts: new Map(runs(bytes * each.growth)) }));
  for (const name of short.keys()) {
    for (const place of places) {
      for (const { growth, slack, texts } of longer) {
        const text = texts.get(name) ?? '';
        const first = await cpuMsOf(() => place.send(client, text));
        if (first < floorMs) continue;
        const small = await least(() => place.send(client, short.get(name) ?? ''));
        const bound = floorMs + growth * slack * small;
        // Repeat an unclear measurement and take the least of three, because a garbage collection rarely falls into all of them.
        const isClear = first < bound || first > bound + collectionMs;
        const large = isClear ? first : await least(() => place.send(client, text));
        if (large > bound)
          return `${place.name}, ${name}: ${small} ms for ${bytes} bytes, ${large} ms for ${text.length}`;
      }
    }
  }
  return undefined;
}

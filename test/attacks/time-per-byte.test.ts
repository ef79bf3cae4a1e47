/**
 * Attack group 15 of attacks.md: a long run in any place of a request takes time that is linear in its length. The law
 * is about CPU time of this process, so that a busy machine does not change it, and about its growth: quadratic time
 * over 16 times the bytes is 256 times as long.
 */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../support/cpu-time.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { adminPlaces, bodyPlaces, headerPlaces, type Place, runs, targetPlaces } from './long-runs.ts';

/** Shorter texts first, so that a place whose time grows with a power of the length fails within seconds. */
const growths = [4, 16];
/** Compilation and garbage collection may fall into any measurement. */
const floorMs = 120;
/** How much more than linear is still called linear. */
const slack = 4;

const least = async (work: () => Promise<unknown>): Promise<number> => {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3; round += 1) least = Math.min(least, await cpuMsOf(work));
  return least;
};

/** The first place whose time grows faster than linear, told with its figures. */
async function steepPlace(
  places: readonly Place[],
  client: Client,
  bytes: number,
): Promise<string | undefined> {
  const short = new Map(runs(bytes));
  const longer = growths.map((growth) => ({ growth, texts: new Map(runs(bytes * growth)) }));
  for (const name of short.keys()) {
    for (const place of places) {
      for (const { growth, texts } of longer) {
        const text = texts.get(name) ?? '';
        const first = await cpuMsOf(() => place.send(client, text));
        if (first < floorMs) continue;
        const small = await least(() => place.send(client, short.get(name) ?? ''));
        const bound = floorMs + growth * slack * small;
        // A garbage collection hides in one measurement, not in three.
        const large = first < bound ? first : await least(() => place.send(client, text));
        if (large > bound)
          return `${place.name}, ${name}: ${small} ms for ${bytes} bytes, ${large} ms for ${text.length}`;
      }
    }
  }
  return undefined;
}

async function furnish(): Promise<GatewayWorld> {
  const world = await openGateway();
  await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await world.client.put('/bucket/key', { body: 'content' });
  return world;
}

test('a long run in a header takes linear time', { timeout: 300_000 }, async () => {
  await using world = await furnish();
  expect(await steepPlace(headerPlaces, world.client, 2_000)).toBeUndefined();
});

test('a long run in a request target takes linear time', { timeout: 300_000 }, async () => {
  await using world = await furnish();
  expect(await steepPlace(targetPlaces, world.client, 2_000)).toBeUndefined();
});

test('a long run in a body takes linear time', { timeout: 300_000 }, async () => {
  await using world = await furnish();
  expect(await steepPlace(bodyPlaces, world.client, 6_000)).toBeUndefined();
});

test('a long run in the body of an operator takes linear time', { timeout: 300_000 }, async () => {
  await using world = await furnish();
  expect(await steepPlace(adminPlaces, world.as({ credential: operator }), 6_000)).toBeUndefined();
});

test('a long run in the body of a stranger takes linear time', { timeout: 300_000 }, async () => {
  await using world = await furnish();
  const places = bodyPlaces.filter((_, at) => at % 4 === 0);
  expect(await steepPlace(places, world.anonymous, 6_000)).toBeUndefined();
});

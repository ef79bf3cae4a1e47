/**
 * Attack group 15 of docs/security.md: a long run in any place of a request takes CPU time that is linear in its length. CPU time of this
 * process does not depend on other load; quadratic time over 16 times the bytes would be 256 times as long.
 */
import { describe, expect, test } from 'vitest';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { adminPlaces, bodyPlaces, headerPlaces, type Place, targetPlaces } from './long-runs.ts';
import { steepPlace } from './steep-place.ts';

async function furnish(): Promise<GatewayWorld> {
  const world = await openGateway();
  await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await world.client.put('/bucket/key', { body: 'content' });
  return world;
}

/** A place whose text is processed directly instead of being sent. */
const working = (name: string, work: (text: string) => unknown): Place => ({
  name,
  send: async (_, text) => work(text),
});
const figures = /: [\d.]+ ms for \d+ bytes, [\d.]+ ms for (\d+)$/;

describe('the checker of this file', () => {
  const places = [
    working('linear', (text) => text.split('').reverse().sort().join('').trimEnd()),
    working('quadratic', (text) => /[ \t\r\n]+$/.test(text)),
  ];

  test('names a place with quadratic time behind one with linear time, and the run that shows it', async () => {
    await using world = await openGateway();
    const found = await steepPlace(places, world.client, 3_000);
    expect(found).toMatch(/^quadratic, "\\t": /);
    expect(found).toMatch(figures);
  });

  test('finds cubic time with the shorter of the long texts', async () => {
    await using world = await openGateway();
    const cubic = working('cubic', (text) => /^x[\t ]*[\t ]*[\t ]*$/.test(text));
    const found = await steepPlace([cubic], world.client, 300);
    expect(found).toMatch(/^cubic, "\\t": /);
    expect(Number(figures.exec(found ?? '')?.[1])).toBeLessThan(2_000);
  });

  test('finds nothing where the time is linear', async () => {
    await using world = await openGateway();
    expect(await steepPlace(places.slice(0, 1), world.client, 3_000)).toBeUndefined();
  });
});

test('a long run in a header takes linear time', async () => {
  await using world = await furnish();
  expect(await steepPlace(headerPlaces, world.client, 2_000)).toBeUndefined();
});

test('a long run in a request target takes linear time', async () => {
  await using world = await furnish();
  expect(await steepPlace(targetPlaces, world.client, 2_000)).toBeUndefined();
});

test('a long run in a body takes linear time', async () => {
  await using world = await furnish();
  expect(await steepPlace(bodyPlaces, world.client, 6_000)).toBeUndefined();
});

test('a long run in a request of an operator takes linear time', async () => {
  await using world = await furnish();
  expect(await steepPlace(adminPlaces, world.as({ credential: operator }), 6_000)).toBeUndefined();
});

test('a long run in the body of a stranger takes linear time', async () => {
  await using world = await furnish();
  const places = bodyPlaces.filter((_, at) => at % 4 === 0);
  expect(await steepPlace(places, world.anonymous, 6_000)).toBeUndefined();
});

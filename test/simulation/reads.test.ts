/** A read returns the existing version although versions move between head and history meanwhile. */
import { expect, test } from 'vitest';
import { findHead, findVersion } from '../../src/metadata/objects/objects.ts';
import { type DomainWorld, domainWorld } from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';

/** The world's metadata, with an action right after its nth read. */
function interrupted(world: DomainWorld, nth: number, act: () => Promise<unknown>): DomainWorld['metadata'] {
  let gets = 0;
  const get: DomainWorld['metadata']['get'] = async (at, key) => {
    const found = await world.metadata.get(at, key);
    gets += 1;
    if (gets === nth) await act();
    return found;
  };
  return faulty(world.metadata, { get });
}

test('a version is found whenever the one above it goes', async () => {
  for (let nth = 1; nth <= 3; nth += 1) {
    const world = await domainWorld('Enabled');
    const client = world.process();
    const { row: below } = await client.put('key', 'one');
    const { row: above } = await client.put('key', 'two');
    const metadata = interrupted(world, nth, () => client.remove('key', above.version));
    const found = await findVersion(metadata, await world.bucket(), 'key', below.version);
    expect(found?.row.version, `read ${nth}`).toBe(below.version);
  }
});

test('the null version is found whenever the one above it goes', async () => {
  for (let nth = 1; nth <= 3; nth += 1) {
    const world = await domainWorld();
    const client = world.process();
    const { row: below } = await client.put('key', 'one');
    await world.setVersioning('Enabled');
    const { row: above } = await client.put('key', 'two');
    const metadata = interrupted(world, nth, () => client.remove('key', above.version));
    const found = await findVersion(metadata, await world.bucket(), 'key', 'null');
    expect(found?.row.version, `read ${nth}`).toBe(below.version);
  }
});

test('a key has a head whenever the marker on top of it goes', async () => {
  for (let nth = 1; nth <= 3; nth += 1) {
    const world = await domainWorld('Enabled');
    const client = world.process();
    const { row: below } = await client.put('key', 'one');
    const marker = await client.remove('key');
    const metadata = interrupted(world, nth, () => client.remove('key', marker.version?.version));
    const head = await findHead(metadata, await world.bucket(), 'key');
    expect([below.version, marker.version?.version], `read ${nth}`).toContain(head?.row.version);
  }
});

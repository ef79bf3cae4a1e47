/** ListObjectVersions while versions move between head and history: each version is listed exactly once. */
import { describe, expect, test } from 'vitest';
import { everyVersion, readPage, type VersionStart } from '../../src/domain/common/listed-rows.ts';
import type { ListedVersionRow } from '../../src/metadata/objects/objects.ts';
import { headSlot } from '../../src/metadata/tables.ts';
import { type DomainWorld, domainWorld } from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';

type Client = ReturnType<DomainWorld['process']>;
type Ids = Readonly<Record<string, string>>;

/** The world's metadata, with an action around its nth read; a page of a scan counts as one read. */
function interrupted(
  { metadata }: DomainWorld,
  { nth, when }: { readonly nth: number; readonly when: 'before' | 'after' },
  act: () => Promise<unknown>,
): { readonly metadata: DomainWorld['metadata']; readonly reads: () => number } {
  let reads = 0;
  const read = async <Found>(work: () => Promise<Found>): Promise<Found> => {
    reads += 1;
    const isNow = reads === nth;
    if (isNow && when === 'before') await act();
    const found = await work();
    if (isNow && when === 'after') await act();
    return found;
  };
  const scan: DomainWorld['metadata']['scan'] = (at, range) => {
    const cursor = metadata.scan(at, range);
    return {
      next: (count) => read(() => cursor.next(count)),
      seek: (key, options) => cursor.seek(key, options),
    };
  };
  const get: DomainWorld['metadata']['get'] = (at, key) => read(() => metadata.get(at, key));
  return { metadata: faulty(metadata, { scan, get }), reads: () => reads };
}

/** Requests the pages one by one, as a client does. */
async function pagesOf(
  world: DomainWorld,
  metadata: DomainWorld['metadata'],
  limit: number,
): Promise<ListedVersionRow[][]> {
  const bucket = await world.bucket();
  const pages: ListedVersionRow[][] = [];
  for (let start: VersionStart; pages.length < 100; ) {
    const grouping = { prefix: '', delimiter: '', limit };
    const page = await readPage(everyVersion({ metadata }, bucket, { prefix: '', start }), grouping);
    const rows = page.entries.flatMap((entry) => ('row' in entry ? [entry.row] : []));
    pages.push(rows);
    const last = rows.at(-1);
    if (!page.isTruncated || last === undefined) return pages;
    start = { key: last.key, version: last.version };
  }
  throw new Error('the listing never ends');
}

const idOf = ({ key, version }: Pick<ListedVersionRow, 'key' | 'version'>): string => `${key} ${version}`;
/** Versions in the order of a listing: the ids sort by time, the newest first. */
const inOrder = (ids: readonly string[]): string[] =>
  [...ids].sort((a, b) => {
    const [[key = '', id = ''], [other = '', otherId = '']] = [a.split(' '), b.split(' ')];
    return key < other ? -1 : key > other ? 1 : id > otherId ? -1 : 1;
  });

interface Scenario {
  readonly name: string;
  /** Creates the key that changes. The keys 'a' and 'z' around it do not change. */
  fill(client: Client, world: DomainWorld): Promise<Ids>;
  change(client: Client, made: Ids, world: DomainWorld): Promise<unknown>;
}

const versionOf = (plan: Awaited<ReturnType<Client['remove']>>): string => plan.version?.version ?? '';
const put = async (client: Client, text: string): Promise<string> =>
  (await client.put('key', text)).row.version;

const scenarios: readonly Scenario[] = [
  {
    name: 'a version is put on top',
    fill: async (client) => ({ old: await put(client, '1'), head: await put(client, '2') }),
    change: (client) => client.put('key', '3'),
  },
  {
    name: 'two versions are put on top',
    fill: async (client) => ({ head: await put(client, '1') }),
    change: async (client) => [await client.put('key', '2'), await client.put('key', '3')],
  },
  {
    name: 'a marker is put on top',
    fill: async (client) => ({ old: await put(client, '1'), head: await put(client, '2') }),
    change: (client) => client.remove('key'),
  },
  {
    name: 'a version is put on top of a marker',
    fill: async (client) => ({ old: await put(client, '1'), marker: versionOf(await client.remove('key')) }),
    change: (client) => client.put('key', '2'),
  },
  {
    name: 'the marker on top goes',
    fill: async (client) => ({ old: await put(client, '1'), marker: versionOf(await client.remove('key')) }),
    change: (client, { marker }) => client.remove('key', marker),
  },
  {
    name: 'the version on top goes',
    fill: async (client) => ({
      oldest: await put(client, '1'),
      old: await put(client, '2'),
      head: await put(client, '3'),
    }),
    change: (client, { head }) => client.remove('key', head),
  },
  {
    name: 'the version on top of a marker goes',
    fill: async (client) => ({
      old: await put(client, '1'),
      marker: versionOf(await client.remove('key')),
      head: await put(client, '2'),
    }),
    change: (client, { head }) => client.remove('key', head),
  },
  {
    name: 'all but the oldest go',
    fill: async (client) => ({
      oldest: await put(client, '1'),
      old: await put(client, '2'),
      older: await put(client, '3'),
      head: await put(client, '4'),
    }),
    async change(client, { old, older, head }) {
      for (const version of [older, head, old]) await client.remove('key', version);
    },
  },
  {
    name: 'the null version is replaced',
    async fill(client, world) {
      const old = await put(client, '1');
      await world.setVersioning('Suspended');
      return { old, head: await put(client, '2') };
    },
    change: (client) => client.put('key', '3'),
  },
  {
    name: 'the null version is replaced by a marker',
    async fill(client, world) {
      const old = await put(client, '1');
      await world.setVersioning('Suspended');
      return { old, head: await put(client, '2') };
    },
    change: (client) => client.remove('key'),
  },
];

async function worldOf({ fill }: Scenario) {
  const world = await domainWorld('Enabled');
  const client = world.process();
  for (const key of ['a', 'z']) for (const text of ['1', '2']) await client.put(key, text);
  const made = await fill(client, world);
  return { world, client, made };
}

describe.each(scenarios)('while $name', (scenario) => {
  test.each([1, 2, 3, 1000])('every version is listed once, in pages of %i', async (limit) => {
    for (const when of ['before', 'after'] as const)
      for (let nth = 1, reads = 1; nth <= reads; nth += 1) {
        const { world, client, made } = await worldOf(scenario);
        const quiet = async () => (await pagesOf(world, world.metadata, 1000)).flat();
        const before = await quiet();
        const change = () => scenario.change(client, made, world);
        const listed = interrupted(world, { nth, when }, change);
        const pages = await pagesOf(world, listed.metadata, limit);
        reads = listed.reads();
        const after = new Set((await quiet()).map(idOf));
        const shown = pages.flat().map(idOf);
        const at = `${when} read ${nth} of ${reads}`;
        expect(shown, at).toEqual(inOrder([...new Set(shown)]));
        const standing = before.map(idOf).filter((id) => after.has(id));
        expect(
          standing.filter((id) => !shown.includes(id)),
          at,
        ).toEqual([]);
        for (const page of pages) {
          // Only the first entry of a key on a page may be its head; later ones must not.
          const heads = page.filter(({ slot }) => slot === headSlot);
          expect(new Set(heads.map(({ key }) => key)).size, at).toBe(heads.length);
          for (const head of heads)
            expect(
              page.find(({ key }) => key === head.key),
              at,
            ).toBe(head);
          const nulls = page.filter(({ isNull }) => isNull).map(({ key }) => key);
          expect(new Set(nulls).size, at).toBe(nulls.length);
        }
        if (limit === 1000)
          for (const key of new Set(pages.flat().map((row) => row.key)))
            expect(pages.flat().find((row) => row.key === key)?.slot, at).toBe(headSlot);
      }
  });
});

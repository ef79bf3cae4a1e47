/** Three sites that exchange versions in any order end with the same versions, the same current ones and the same tags. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ReplicaDocument } from '../../src/metadata/objects/properties.ts';
import type { ObjectRow } from '../../src/metadata/tables.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { documentOf, rowsOf, sendObject, sendState } from '../support/replicas.ts';

const keys = ['a', 'b'] as const;
const siteCount = 3;
const key = fc.constantFrom(...keys);
const site = fc.nat({ max: siteCount - 1 });
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('put' as const), site, key, body: fc.string() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), site, key }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('tag' as const), site, key, value: fc.nat(9) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('take' as const), site, key, pick: fc.nat() }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('deliver' as const), site, pick: fc.nat(), again: fc.boolean() }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Message {
  readonly key: string;
  readonly document: ReplicaDocument;
}

interface Change {
  readonly isNull: boolean;
  readonly marker: boolean;
  /** The latest stamp that any site has shown, and the tags under it. */
  stamp: string;
  tags: string;
}

/** The slow model: all versions that were ever made, and the latest of their tags. */
class Model {
  readonly versions = new Map<string, Map<string, Change>>(keys.map((each) => [each, new Map()]));

  see(row: ObjectRow, { stamp }: ReplicaDocument): void {
    const known = this.versions.get(row.key);
    const seen = known?.get(row.version);
    const tags = JSON.stringify(row.headers.tags ?? []);
    if (seen === undefined) known?.set(row.version, { isNull: row.isNull, marker: row.marker, stamp, tags });
    else if (stamp > seen.stamp) Object.assign(seen, { stamp, tags });
  }

  /** Newest first; of the null versions only the newest. */
  list(of: string): { readonly id: string; readonly marker: boolean; readonly tags: string }[] {
    const all = [...(this.versions.get(of) ?? [])].sort(([a], [b]) => (a < b ? 1 : -1));
    const newestNull = all.find(([, { isNull }]) => isNull)?.[0];
    return all
      .filter(([version, { isNull }]) => !isNull || version === newestNull)
      .map(([version, { isNull, marker, tags }]) => ({ id: isNull ? 'null' : version, marker, tags }));
  }
}

class Sites {
  readonly model = new Model();
  readonly network: Message[] = [];
  readonly bodies = new Map<string, string>();
  readonly worlds: readonly GatewayWorld[];

  constructor(worlds: readonly GatewayWorld[]) {
    this.worlds = worlds;
  }

  at(index: number): GatewayWorld {
    const world = this.worlds[index];
    if (world === undefined) throw new Error(`no site ${index}`);
    return world;
  }

  async put(index: number, at: string, body: string): Promise<void> {
    const put = await this.at(index).client.put(`/bucket/${at}`, { body });
    expect(put.status, put.text).toBe(200);
    this.bodies.set(put.header('etag') ?? '', body);
  }

  async run(one: Step): Promise<void> {
    if (one.do === 'put') return this.put(one.site, one.key, one.body);
    const { client, context } = this.at(one.site);
    if (one.do === 'deliver') {
      const message = this.network[one.pick % (this.network.length || 1)];
      if (message === undefined) return;
      for (const _ of one.again ? [1, 2] : [1]) await this.deliver(one.site, message);
      return;
    }
    const path = `/bucket/${one.key}`;
    if (one.do === 'delete') {
      expect((await client.delete(path)).status).toBe(204);
      return;
    }
    if (one.do === 'tag') {
      const body = `<Tagging><TagSet><Tag><Key>t</Key><Value>${one.value}</Value></Tag></TagSet></Tagging>`;
      expect([200, 404, 405]).toContain((await client.put(`${path}?tagging`, { body })).status);
      return;
    }
    const rows = await rowsOf(context, 'bucket', one.key);
    const row = rows[one.pick % (rows.length || 1)];
    if (row !== undefined) this.network.push({ key: one.key, document: await documentOf(context, row) });
  }

  /** As a sender does: the state first, and the whole version where the site does not have it. */
  async deliver(index: number, { key: at, document }: Message): Promise<string | undefined> {
    const { client } = this.at(index);
    const path = `/bucket/${at}`;
    const state = await sendState(client, path, document);
    if (state.status === 200) return state.header('*-replica-outcome');
    expect([state.status, state.code], state.text).toEqual([404, 'NoSuchVersion']);
    const sent = await sendObject(client, path, document, this.bodies.get(`"${document.etag}"`) ?? '');
    expect(sent.status, sent.text).toBe(200);
    return sent.header('*-replica-outcome');
  }

  async observe(): Promise<void> {
    for (const { context } of this.worlds)
      for (const each of keys)
        for (const row of await rowsOf(context, 'bucket', each))
          this.model.see(row, await documentOf(context, row));
  }

  /** Exchanges all rows between all sites until nothing changes. */
  async settle(): Promise<void> {
    for (let round = 0; round < 5; round += 1) {
      let stored = 0;
      for (const [from, { context }] of this.worlds.entries())
        for (const each of keys)
          for (const row of await rowsOf(context, 'bucket', each)) {
            const document = await documentOf(context, row);
            for (let to = 0; to < siteCount; to += 1)
              if (to !== from && (await this.deliver(to, { key: each, document })) === 'stored') stored += 1;
          }
      if (stored === 0) return;
    }
    throw new Error('the exchange does not come to an end');
  }

  async shown(index: number) {
    const { client } = this.at(index);
    const listed = await client.get('/bucket?versions');
    const names = ['Key', 'VersionId', 'IsLatest', 'ETag', 'LastModified', 'Size'];
    const tags: string[] = [];
    for (const each of keys)
      for (const { id, marker } of this.model.list(each)) {
        if (marker) continue;
        const got = await client.get(`/bucket/${each}?tagging&versionId=${id}`);
        tags.push(JSON.stringify(got.all('Key').map((name, n) => [name, got.all('Value')[n]])));
      }
    return { listed: names.map((name) => listed.all(name)), tags, ids: listed.all('VersionId') };
  }
}

/** The clocks of the sites differ by up to an hour. */
const skews = [0, 3_600_000, -1_800_000];

async function openSites(): Promise<Sites> {
  const worlds = await Promise.all(
    skews.map((skew) => openGateway({ clock: { ...systemClock, now: () => systemClock.now() + skew } })),
  );
  const sites = new Sites(worlds);
  for (const [index, { client }] of worlds.entries()) {
    await client.put('/bucket');
    // Each site has a null version of one key.
    await sites.put(index, 'a', `before at ${index}`);
    await setVersioning(client, 'bucket', 'Enabled');
  }
  await sites.observe();
  return sites;
}

test('sites that exchange versions in any order, twice and beside local writes, end with the same versions, current ones and tags', async () => {
  await fc.assert(
    fc.asyncProperty(
      // The steps of a batch run concurrently.
      fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { maxLength: 12 }),
      async (batches) => {
        const sites = await openSites();
        try {
          for (const batch of batches) {
            await Promise.all(batch.map((each) => sites.run(each)));
            await sites.observe();
          }
          await sites.settle();
          await sites.observe();
          const [first, ...others] = await Promise.all(sites.worlds.map((_, index) => sites.shown(index)));
          for (const other of others) expect(other).toEqual(first);
          const wanted = keys.flatMap((each) => sites.model.list(each));
          expect(first?.ids).toEqual(wanted.map(({ id }) => id));
          expect(first?.tags).toEqual(wanted.filter(({ marker }) => !marker).map(({ tags }) => tags));
          const counted = await sites.at(0).usage('bucket');
          expect(counted.objects).toBe(wanted.filter(({ marker }) => !marker).length);
        } finally {
          for (const world of sites.worlds) await world.close();
        }
      },
    ),
    {
      numRuns: 40,
      ...(process.env['FC_SEED'] === undefined ? {} : { seed: Number(process.env['FC_SEED']) }),
    },
  );
});

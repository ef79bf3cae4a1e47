/** A ring of two data centers: gateways in both exclude each other, or refuse to start. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SerialSetting } from '../../src/backends/metadata/wide-column/schema.ts';
import { type WideColumnStore, wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { StoreRefused } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { noCassandraOfOurs, type Ring, startOwnRing } from '../support/engines/cassandra.ts';
import { fresh, head, heads, headsOf, tallies, talliesOf } from './metadata-store/tables.ts';

const races = 60;
const bothCenters = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}";

describe.skipIf(noCassandraOfOurs !== undefined)(`two data centers${noCassandraOfOurs ?? ''}`, () => {
  let ring: Ring;
  const opened: WideColumnStore[] = [];
  beforeAll(async () => {
    ring = await startOwnRing(['dc1', 'dc2']);
  });
  afterAll(async () => {
    for (const store of opened) await store.close();
    await ring?.[Symbol.asyncDispose]();
  });

  interface Gateway {
    readonly keyspace: string;
    readonly localDc?: string;
    readonly serial?: SerialSetting;
    readonly replication?: string;
  }
  async function open({ keyspace, localDc = 'dc1', serial = 'auto', replication = bothCenters }: Gateway) {
    const [dc1, dc2] = ring.hosts;
    const store = await wideColumnStore({
      hosts: [(localDc === 'dc2' ? dc2 : dc1) as string],
      ...{ localDc, keyspace, serial, replication },
      tables: [heads, tallies],
      random: systemRandom(),
      clock: systemClock,
    });
    opened.push(store);
    return store;
  }
  const keyspaceOfOurs = (): string => `centers_${randomBytes(4).toString('hex')}`;

  const shared = keyspaceOfOurs();

  it('gateways of both exclude each other: of two that put an absent row, one applies, and both count once', async () => {
    const keyspace = shared;
    const stores = [await open({ keyspace }), await open({ keyspace, localDc: 'dc2' })];
    const bucket = fresh();
    let won = 0;
    for (let race = 0; race < races; race += 1) {
      const put = { put: head(bucket, `key-${race}`), expect: 'absent' as const };
      const then = [{ at: talliesOf(bucket), add: { className: 'c' }, by: { bytes: 1 } }];
      const outcomes = await Promise.all(
        stores.map((store) => store.commit(headsOf(bucket), [put], { then })),
      );
      won += outcomes.filter(({ applied }) => applied).length;
      expect(
        outcomes.filter(({ applied }) => applied),
        `race ${race}`,
      ).toHaveLength(1);
    }
    // Each store reads the writes of the other one.
    for (const store of stores)
      expect((await store.get(talliesOf(bucket), { className: 'c' }))?.row.bytes).toBe(won);
  });

  it('a gateway that would decide in another scope than the first one did does not start', async () => {
    const keyspace = keyspaceOfOurs();
    await open({ keyspace, serial: 'local' });
    for (const [gateway, scope] of [
      [{ serial: 'local', localDc: 'dc2' }, 'local dc2'],
      [{ serial: 'auto', localDc: 'dc2' }, 'local dc2'],
      [{ serial: 'global' }, 'global'],
    ] as const) {
      const refused = await open({ keyspace, ...gateway }).catch((error: unknown) => error);
      expect(refused, scope).toBeInstanceOf(StoreRefused);
      expect((refused as Error).message).toContain(`in scope "local dc1", this one would in "${scope}"`);
    }
    // A gateway without the setting starts, and so does one with the same setting.
    await open({ keyspace });
    await open({ keyspace, serial: 'local' });
    await expect(open({ keyspace: shared, serial: 'local' })).rejects.toThrow('in scope "global"');
  });

  it('a keyspace that the local data center keeps nothing of, or that has too few nodes, is refused with the reason', async () => {
    const inOne = keyspaceOfOurs();
    const replication = "{'class': 'NetworkTopologyStrategy', 'dc1': 1}";
    await open({ keyspace: inOne, replication });
    await expect(open({ keyspace: inOne, localDc: 'dc2', serial: 'local' })).rejects.toThrow(
      'data center dc2 holds no replicas',
    );
    const three = "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3}";
    await expect(open({ keyspace: keyspaceOfOurs(), replication: three })).rejects.toThrow(
      /too few nodes for a quorum: replicas 3 in dc1, which has 1 nodes; 3 in dc2.*SVC_WIDECOL_REPLICATION/,
    );
  });
});

/** Sites that cannot reach each other for a while end with the same versions, and each version crosses a link once. */
import { randomInt } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { operatorOf } from '../support/clusters.ts';
import { openDice } from '../support/dice.ts';
import {
  link,
  modifications,
  openSite,
  refusal,
  run,
  type Site,
  stateOf,
  until,
  versions,
} from '../support/replication-sites.ts';

const tagging = (value: string): string =>
  `<Tagging><TagSet><Tag><Key>k</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;

test.each([
  ['two sites', 2],
  ['a ring of three', 3],
])(
  'after partitions of %s all have the same versions, current ones and tags, and took each version once',
  async (_what, count) => {
    const sites: Site[] = [];
    while (sites.length < count) sites.push(await openSite());
    for (const [n, site] of sites.entries())
      await link(site, sites[(n + 1) % count] as Site, { criteria: modifications });
    run(...sites);
    const seed = randomInt(2 ** 32);
    const dice = openDice(seed);
    for (let round = 0; round < 3; round += 1) {
      // Each site may be cut off from the one that sends to it, while all take writes.
      for (const site of sites) if (dice.chance(2)) site.instead = () => refusal(503, 'SlowDown');
      for (let n = 0; n < 12; n += 1) {
        const { client } = dice.pick(sites).world;
        const path = `/bucket/${dice.roll(3)}`;
        const what = dice.roll(6);
        if (what === 0) await client.delete(path);
        else if (what === 1) await client.put(`${path}?tagging`, { body: tagging(`${round}-${n}`) });
        else await client.put(path, { body: `${round} ${n}` });
      }
      for (const site of sites) site.instead = undefined;
    }
    await vi.waitFor(async () => {
      for (const site of sites) {
        const { destinations } = await operatorOf(site.world).must('GET', '/replication/status');
        expect(destinations).toEqual([]);
      }
      const shown = await Promise.all(sites.map(stateOf));
      for (const other of shown.slice(1)) expect(other, `seed ${seed}`).toEqual(shown[0]);
    }, until);
    // Each version reaches every other site once.
    const ids = (await versions(sites[0] as Site)).filter(({ etag }) => etag !== '').length;
    const contents = sites.flatMap(({ taken }) => taken).filter((name) => name === 'PUT replica');
    expect(contents, `seed ${seed}`).toHaveLength((count - 1) * ids);
  },
);

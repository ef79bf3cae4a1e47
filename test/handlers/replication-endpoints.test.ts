/** An operator gives a peer another endpoint while the replicator sends to it. */
import { expect, test, vi } from 'vitest';
import { operatorOf } from '../support/clusters.ts';
import { complete, createUpload, type PartOf, putPart } from '../support/gateway-bodies.ts';
import {
  drained,
  keys,
  link,
  openSite,
  run,
  type Site,
  settled,
  until,
  versions,
} from '../support/replication-sites.ts';

/** Gives the peer `far` the endpoint of another site while the first such request is answered. @returns whether that has happened */
function changePeer(near: Site, [far, other]: readonly [Site, Site], sign: RegExp): () => boolean {
  let isChanged = false;
  far.before = async (target) => {
    if (!sign.test(target) || isChanged) return;
    isChanged = true;
    const peer = { ...keys, endpoint: other.endpoint };
    await operatorOf(near.world).must('PUT', '/replication/peers/far', peer);
  };
  return () => isChanged;
}

test.each([
  ['whole', /replica=[0-9a-f]/, 1],
  ['in parts', /partNumber=1/, 3],
] as const)(
  'a version that is sent %s while its peer gets another endpoint goes to that one, and is COMPLETED then',
  async (_, sign, count) => {
    const [near, far, other] = [await openSite(), await openSite(), await openSite()];
    const { client } = near.world;
    await link(near, far);
    const hasChanged = changePeer(near, [far, other], sign);
    const seen: string[] = [];
    far.instead = (method, target) => void (hasChanged() && seen.push(`${method} ${target.split('?')[1]}`));
    const uploadId = await createUpload(client, '/bucket/a');
    const parts: PartOf[] = [];
    for (let number = 1; number <= count; number += 1)
      parts.push(
        await putPart(client, '/bucket/a', { uploadId, number, body: Buffer.alloc(5 * 1024 * 1024, number) }),
      );
    if (count > 1) await complete(client, '/bucket/a', { uploadId, parts });
    else await client.put('/bucket/a', { body: 'one' });
    run(near);
    await settled(near, '/bucket/a', 'COMPLETED');
    expect(await versions(other)).toEqual(await versions(near));
    // The request that was under way, and what ends the upload.
    if (count > 1)
      expect(seen).toEqual([
        expect.stringMatching(/^PUT partNumber=1&/),
        expect.stringMatching(/^DELETE uploadId=/),
      ]);
    else expect(seen).toHaveLength(1);
  },
);

test('a removal that is sent while its peer gets another endpoint goes to that one too', async () => {
  const [near, far, other] = [await openSite(), await openSite(), await openSite()];
  const { client } = near.world;
  const more = '<DeleteReplication><Status>Enabled</Status></DeleteReplication>';
  await link(near, other, { more });
  run(near);
  await client.put('/bucket/a', { body: 'one' });
  await settled(near, '/bucket/a', 'COMPLETED');
  await link(near, far, { more });
  const hasChanged = changePeer(near, [far, other], /replica=[0-9a-f]/);
  const [version] = await versions(near);
  await client.delete(`/bucket/a?versionId=${version?.id}`);
  await vi.waitFor(() => expect(hasChanged()).toBe(true), until);
  await drained(near);
  expect(await versions(other)).toEqual([]);
});

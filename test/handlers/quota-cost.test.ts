/** What quotas cost a write: no conditional write beside its own, but for one of each share every two seconds. @storage */
import { expect, test } from 'vitest';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice, backends, openGateway } from '../support/gateway.ts';

test.each(backends)(
  'on %s 100 writes under quotas of bucket and account commit as often as without, once shares are taken',
  async (backend) => {
    const commits = new Map<string, number>();
    const counting = (metadata: MetadataStore): MetadataStore =>
      faulty(metadata, {
        commit: ((...call: Parameters<MetadataStore['commit']>) => {
          const { name } = call[0].table;
          commits.set(name, (commits.get(name) ?? 0) + 1);
          return metadata.commit(...call);
        }) as MetadataStore['commit'],
      });
    await using world = await openGateway({
      backend,
      wrap: (context) => ({ ...context, metadata: counting(context.metadata) }),
    });
    const admin = operatorOf(world);
    for (const name of ['free', 'limited']) await world.client.put(`/${name}`);
    const write = async (bucket: string, count: number): Promise<ReadonlyMap<string, number>> => {
      commits.clear();
      for (let key = 0; key < count; key += 1)
        expect((await world.client.put(`/${bucket}/key-${key}`, { body: 'x'.repeat(4_096) })).status).toBe(
          200,
        );
      return new Map(commits);
    };
    const without = await write('free', 100);
    await admin.must('PUT', `/iam/users/${alice.owner}/quota`, { maxBuckets: 0, totalMaxBytes: 2 ** 40 });
    const quota = { maxBytes: 2 ** 40, maxObjects: 2 ** 30, maxBytesPerObject: 2 ** 30 };
    await admin.must('PUT', '/buckets/limited/quota', quota);
    await write('limited', 1);
    const began = performance.now();
    const limited = new Map(await write('limited', 100));
    const elapsedMs = performance.now() - began;
    // A process writes each share in use again every two seconds, however many writes it serves meanwhile.
    const rewrites = limited.get('quota_shares') ?? 0;
    expect(rewrites).toBeLessThanOrEqual(2 * (1 + Math.ceil(elapsedMs / 2_000)));
    limited.delete('quota_shares');
    expect(limited).toEqual(without);
  },
);

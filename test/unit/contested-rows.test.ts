/** How often rows are committed that many requests, or a whole pass, write. */
import { expect, test } from 'vitest';
import type { AnyTable, Change, MetadataStore } from '../../src/ports/metadata-store.ts';
import { reconcileQuotas } from '../../src/workers/buckets.ts';
import { faulty } from '../support/faulty.ts';
import type { GatewayWorldOptions } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { openQuotas } from '../support/quota-world.ts';

/** A gateway whose commits are counted by the names of their tables; removals alone are not. */
async function openCounted(options: GatewayWorldOptions = {}) {
  const commits = new Map<string, number>();
  const world = await openQuotas({
    ...options,
    wrap: (context) => {
      const commit: MetadataStore['commit'] = (at, changes, ...rest) => {
        const { name }: AnyTable = at.table;
        const isWritten = (changes as readonly Change<AnyTable>[]).some((change) => 'put' in change);
        if (isWritten) commits.set(name, (commits.get(name) ?? 0) + 1);
        return context.metadata.commit(at, changes, ...rest);
      };
      return { ...context, metadata: faulty(context.metadata, { commit }) };
    },
  });
  return Object.assign(world, { commits });
}

const statusesOf = async (sent: readonly Promise<{ readonly status: number }>[]) =>
  new Set((await Promise.all(sent)).map(({ status }) => status));

test.each([
  ['memory', 'Enabled'],
  ['memory', 'Suspended'],
  ['embedded+file', 'Enabled'],
  ['embedded+file', undefined],
] as const)(
  'on %s, versioning %s: many writers of one key refuse each other once',
  async (backend, versioning) => {
    await using world = await openCounted({ backend });
    const { client } = world;
    await client.put('/bucket');
    if (versioning !== undefined) await setVersioning(client, 'bucket', versioning);
    const writers = 48;
    const sent = Array.from({ length: writers }, (_, n) =>
      n % 4 === 3 ? client.delete('/bucket/key') : client.put('/bucket/key', { body: `content ${n}` }),
    );
    expect(await statusesOf(sent)).toEqual(new Set([200, 204]));
    expect(world.commits.get('objects')).toBeLessThanOrEqual(2 * writers);
    if (versioning !== 'Enabled') return;
    const page = await client.get('/bucket?versions');
    expect(page.all('VersionId')).toHaveLength(writers);
  },
);

test.each(['memory', 'embedded+file'] as const)(
  'on %s: many creations of buckets at the same moment are announced in turn',
  async (backend) => {
    await using world = await openCounted({ backend });
    await world.limitUser({ maxBuckets: 100 });
    const creations = 64;
    const sent = Array.from({ length: creations }, (_, n) => world.client.put(`/bucket-${n}`));
    expect(await statusesOf(sent)).toEqual(new Set([200]));
    // Another one removes its announcement meanwhile.
    expect(world.commits.get('quota_shares')).toBeLessThanOrEqual(2 * creations);
  },
);

test('a pass of quota-reconcile stores its position for several buckets at once', async () => {
  await using world = await openCounted();
  const buckets = 40;
  for (let n = 0; n < buckets; n += 1) await world.client.put(`/bucket${n}`);
  const unit = reconcileQuotas(world.context, 1);
  world.commits.clear();
  while ((await unit(new AbortController().signal)) === 'busy');
  const commits = [...world.commits.values()].reduce((sum, count) => sum + count, 0);
  expect(commits).toBeGreaterThan(0);
  expect(commits).toBeLessThan(buckets / 4);
});

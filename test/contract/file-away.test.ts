/** A gateway over a directory that is away answers 503, and nothing is lost when the directory is back. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const minuteMs = 60_000;
const large = Buffer.alloc(9 * 1024 * 1024, 7);

test.each([
  ['replaced by a file', (root: string) => writeFileSync(root, '')],
  ['missing', () => {}],
  ['unmounted', (root: string) => mkdirSync(root)],
])(
  'while the directory of its cluster is %s, a PUT answers 503 ServiceUnavailable, and gc waits',
  async (_, replace) => {
    const clock = virtualClock();
    await using world = await openGateway({ backend: 'embedded+file', clock });
    const { client, context } = world;
    await client.put('/bucket');
    for (const key of ['kept', 'removed']) await client.put(`/bucket/${key}`, { body: large });
    const stored = async () => [...(await world.stored())].length;
    expect(await stored()).toBe(2);
    const root = join(context.config.SVC_DATA_DIR ?? '', 'chunks', 'default');
    renameSync(root, `${root}.away`);
    replace(root);
    for (const { status, code } of [
      await client.put('/bucket/new', { body: large }),
      await client.get('/bucket/kept'),
    ])
      expect([status, code]).toEqual([503, 'ServiceUnavailable']);
    expect((await client.delete('/bucket/removed')).status).toBe(204);
    // The row of the bytes waits until the cluster is back.
    await world.collect();
    rmSync(root, { recursive: true, force: true });
    renameSync(`${root}.away`, root);
    const kept = await client.get('/bucket/kept');
    expect([kept.status, kept.text.length]).toEqual([200, large.length]);
    // After the rest of the cluster.
    await clock.advance(10 * minuteMs);
    await world.gc();
    expect(await stored()).toBe(1);
  },
);

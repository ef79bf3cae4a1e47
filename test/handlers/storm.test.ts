/** Many concurrent clients on a few keys: rows, counters and chunks agree afterwards. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, deletion, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { jittering } from '../support/jitter.ts';

const keys = ['a', 'b', 'c/d'];

/** A small random generator: the same seed gives the same requests. */
function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % sides;
  };
}

async function act(
  client: Client,
  roll: (sides: number) => number,
  isVersioned: boolean,
): Promise<Answer | undefined> {
  const path = `/bucket/${keys[roll(keys.length)]}`;
  const body = 'x'.repeat(roll(40));
  switch (roll(isVersioned ? 9 : 8)) {
    case 0:
      return client.delete(path);
    case 1: {
      const versions = await client.get('/bucket?versions');
      const ids = versions.all('VersionId');
      const at = roll(Math.max(ids.length, 1));
      return client.delete(`/bucket/${versions.all('Key')[at] ?? 'a'}?versionId=${ids[at] ?? 'null'}`);
    }
    case 2: {
      const uploadId = await createUpload(client, path);
      const query = { uploadId, partNumber: '1' };
      const part = await client.put(path, { query, body });
      const parts = [{ number: 1, etag: part.header('etag') ?? '' }];
      const [done] = await Promise.all([
        complete(client, path, { uploadId, parts }),
        roll(2) === 0
          ? client.put(path, { query, body: 'again' })
          : client.delete(path, { query: { uploadId } }),
      ]);
      return done;
    }
    case 3:
      return client.put(path, { body, headers: { 'if-none-match': '*' } });
    case 4:
      return client.post('/bucket?delete', { body: deletion(keys.slice(roll(keys.length))) });
    case 8:
      return setVersioning(client, 'bucket', roll(2) === 0 ? 'Enabled' : 'Suspended');
    default:
      return client.put(path, { body });
  }
}

describe.each(backends)('on %s', (backend) => {
  test.each([
    [1, false],
    [2, true],
    [3, true],
    [4, true],
  ] as const)(
    'a storm of seed %i leaves nothing that does not add up (versioned: %s)',
    async (seed, isVersioned) => {
      await using world = await openGateway({ backend, wrap: jittering(seed) });
      const { client } = world;
      await client.put('/bucket');
      const roll = dice(seed);
      const storm = async (): Promise<void> => {
        for (let i = 0; i < 25; i += 1) {
          const answer = await act(client, roll, isVersioned);
          expect(answer?.status ?? 200, answer?.text).toBeLessThan(500);
        }
      };
      const cleaning = async (): Promise<void> => {
        for (let i = 0; i < 10; i += 1) await world.collect();
      };
      await Promise.all([...Array.from({ length: 4 }, storm), cleaning()]);
      for (const uploadId of (await client.get('/bucket?uploads')).all('UploadId'))
        for (const key of keys) await client.delete(`/bucket/${key}`, { query: { uploadId } });
      await world.gc();
      const versions = await client.get('/bucket?versions');
      const sizes = versions.all('Size').map(Number);
      expect(await world.usage('bucket')).toEqual({
        bytes: sizes.reduce((sum, size) => sum + size, 0),
        objects: sizes.length,
      });
      for (const key of keys) {
        const latest = versions
          .all('Key')
          .filter((each, i) => each === key && versions.all('IsLatest')[i] === 'true');
        expect(latest).toHaveLength(versions.all('Key').includes(key) ? 1 : 0);
        const nulls = versions
          .all('Key')
          .filter((each, i) => each === key && versions.all('VersionId')[i] === 'null');
        expect(nulls.length).toBeLessThanOrEqual(1);
      }
      for (const [i, key] of versions.all('Key').entries()) {
        const got = await client.get(`/bucket/${key}?versionId=${versions.all('VersionId')[i]}`);
        expect([200, 405]).toContain(got.status);
      }
      const stored = await world.stored();
      expect(stored).toHaveLength(sizes.filter((size) => size > 0).length);
      expect((await world.owned('bucket')).filter((id) => stored.includes(id))).toEqual(stored);
    },
  );
});

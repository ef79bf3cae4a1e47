/** Two processes over one data directory act as one: one winner, no stale read, one completion. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  completeSpec,
  createUpload,
  elements,
  type LoadClient,
  pathOf,
  uploadPart,
} from '../support/load-client.ts';
import { layouts, type Two, two } from './two.ts';

const races = 40;
const readTries = 300;
const completions = 50;

const versioning = (client: LoadClient, bucket: string, status: string) =>
  client.expect({
    method: 'PUT',
    path: pathOf(bucket),
    query: { versioning: '' },
    body: `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`,
  });

const isListed = async (client: LoadClient, bucket: string, key: string): Promise<boolean> =>
  elements(
    (await client.expect({ path: pathOf(bucket), query: { 'list-type': '2', prefix: key } })).text,
    'Key',
  ).includes(key);

for (const layout of layouts) {
  describe(layout, () => {
    let world: Two;
    beforeAll(async () => {
      world = await two(layout);
      for (const bucket of ['plain', 'versioned'])
        await world.a.expect({ method: 'PUT', path: pathOf(bucket) });
      await versioning(world.a, 'versioned', 'Enabled');
    });
    afterAll(() => world.close());

    for (const bucket of ['plain', 'versioned']) {
      test(`exactly one of eight writers of an absent key wins (${bucket})`, async () => {
        for (let race = 0; race < races; race += 1) {
          const path = pathOf(bucket, `race-${race}`);
          const answers = await Promise.all(
            world.clients.map((client, i) =>
              client.send({ method: 'PUT', path, body: `writer ${i}`, headers: { 'if-none-match': '*' } }),
            ),
          );
          const statuses = answers.map(({ status }) => status);
          const winner = statuses.indexOf(200);
          expect(
            statuses.filter((status) => status === 200),
            `race ${race}`,
          ).toHaveLength(1);
          expect(
            statuses.every((status) => [200, 409, 412].includes(status)),
            statuses.join(),
          ).toBe(true);
          for (const client of [world.a, world.b])
            expect((await client.expect({ path })).text).toBe(`writer ${winner}`);
        }
      });
    }

    test('of many PUTs with the same If-Match exactly one succeeds', async () => {
      const path = pathOf('plain', 'etag');
      let etag = String((await world.a.expect({ method: 'PUT', path, body: 'first' })).headers.etag);
      for (let race = 0; race < races; race += 1) {
        const answers = await Promise.all(
          world.clients.map((client, i) =>
            client.send({ method: 'PUT', path, body: `${race} ${i}`, headers: { 'if-match': etag } }),
          ),
        );
        const won = answers.filter(({ status }) => status === 200);
        expect(won, `race ${race}`).toHaveLength(1);
        etag = String(won[0]?.headers.etag);
        expect((await world.b.expect({ method: 'HEAD', path })).headers.etag).toBe(etag);
      }
    });

    test('a write or delete by one process is read by the other immediately', async () => {
      for (let attempt = 0; attempt < readTries; attempt += 1) {
        const [writer, reader] = attempt % 2 === 0 ? [world.a, world.b] : [world.b, world.a];
        const key = `fresh-${attempt % 150}`;
        const path = pathOf('plain', key);
        const { headers } = await writer.expect({ method: 'PUT', path, body: `content ${attempt}` });
        expect((await reader.expect({ path })).text).toBe(`content ${attempt}`);
        expect((await reader.expect({ method: 'HEAD', path })).headers.etag).toBe(headers.etag);
        expect(await isListed(reader, 'plain', key), `listed ${key}`).toBe(true);
        if (attempt % 3 > 0) continue;
        await writer.expect({ method: 'DELETE', path });
        expect((await reader.send({ path })).status).toBe(404);
        expect(await isListed(reader, 'plain', key), `still listed ${key}`).toBe(false);
      }
    });

    test('a versioning flip in one process rules the next write in the other', async () => {
      const path = pathOf('flipped', 'key');
      await world.a.expect({ method: 'PUT', path: pathOf('flipped') });
      for (let flip = 0; flip < 30; flip += 1) {
        const isEnabled = flip % 2 === 0;
        await versioning(world.a, 'flipped', isEnabled ? 'Enabled' : 'Suspended');
        const { headers } = await world.b.expect({ method: 'PUT', path, body: `${flip}` });
        expect(headers['x-amz-version-id'] === undefined, `flip ${flip}`).toBe(!isEnabled);
      }
    });

    test('a policy put in one process applies to the next request to the other, until it is removed', async () => {
      const path = pathOf('ruled', 'key');
      await world.a.expect({ method: 'PUT', path: pathOf('ruled') });
      await world.a.expect({ method: 'PUT', path, body: 'x' });
      const deny = (action: string): string => {
        const resource = 'arn:aws:s3:::ruled/*';
        const statement = { Effect: 'Deny', Principal: '*', Action: action, Resource: resource };
        return JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
      };
      for (let turn = 0; turn < 30; turn += 1) {
        const [writer, reader] = turn % 2 === 0 ? [world.a, world.b] : [world.b, world.a];
        const policy = { path: pathOf('ruled'), query: { policy: '' } };
        await writer.expect({ ...policy, method: 'PUT', body: deny('s3:GetObject') });
        expect((await reader.send({ path })).status).toBe(403);
        await writer.expect({ ...policy, method: 'PUT', body: deny('s3:DeleteObject') });
        expect((await reader.send({ path })).status).toBe(200);
        expect((await reader.send({ method: 'DELETE', path })).status).toBe(403);
        await writer.expect({ ...policy, method: 'DELETE' });
        expect((await reader.send({ ...policy })).status).toBe(404);
      }
    });

    test('writes during a change of versioning lose no version', async () => {
      const path = pathOf('shaken', 'key');
      await world.a.expect({ method: 'PUT', path: pathOf('shaken') });
      const kept: string[] = [];
      const flipping = (async () => {
        for (let flip = 0; flip < 10; flip += 1)
          await versioning(world.a, 'shaken', flip % 2 === 0 ? 'Enabled' : 'Suspended');
      })();
      await Promise.all(
        world.clients.slice(1).map(async (client, i) => {
          for (let turn = 0; turn < 10; turn += 1) {
            const answer = await client.send({ method: 'PUT', path, body: `${i} ${turn}` });
            const id = answer.headers['x-amz-version-id'];
            expect([200, 503], answer.text).toContain(answer.status);
            if (answer.status === 200 && id !== undefined && id !== 'null') kept.push(String(id));
          }
        }),
      );
      await flipping;
      const { text } = await world.b.expect({ path: pathOf('shaken'), query: { versions: '' } });
      const ids = elements(text, 'VersionId');
      expect(ids).toEqual(expect.arrayContaining(kept));
      expect(ids.filter((id) => id === 'null').length).toBeLessThanOrEqual(1);
      expect(ids.length).toBeLessThanOrEqual(kept.length + 1);
      expect(elements(text, 'IsLatest').filter((latest) => latest === 'true')).toHaveLength(1);
    });

    test('a bucket that one process made or removed is so for the other', async () => {
      for (let round = 0; round < 30; round += 1) {
        const path = pathOf('coming-and-going');
        await world.a.expect({ method: 'PUT', path });
        await world.b.expect({ method: 'PUT', path: `${path}/key`, body: 'x' });
        expect((await world.a.send({ method: 'DELETE', path })).status).toBe(409);
        await world.a.expect({ method: 'DELETE', path: `${path}/key` });
        await world.b.expect({ method: 'DELETE', path });
        expect((await world.a.send({ method: 'PUT', path: `${path}/key`, body: 'x' })).status).toBe(404);
        expect((await world.b.expect({})).text).not.toContain('coming-and-going');
      }
    });

    test('DeleteBucket and PUT never both succeed', async () => {
      for (let round = 0; round < 30; round += 1) {
        const path = pathOf('contested');
        await world.a.expect({ method: 'PUT', path });
        const [deleted, ...put] = await Promise.all([
          world.a.send({ method: 'DELETE', path }),
          ...world.clients
            .slice(1, 5)
            .map((client, i) => client.send({ method: 'PUT', path: `${path}/key-${i}`, body: `${i}` })),
        ]);
        const stored = put.flatMap(({ status }, i) => (status === 200 ? [`key-${i}`] : []));
        const listing = await world.b.send({ path, query: { 'list-type': '2' } });
        if (deleted?.status === 204) {
          expect(stored, `round ${round}`).toEqual([]);
          expect(listing.status).toBe(404);
          continue;
        }
        expect(elements(listing.text, 'Key'), `round ${round}`).toEqual(stored);
        for (const key of stored) await world.b.expect({ method: 'DELETE', path: `${path}/${key}` });
        await world.a.expect({ method: 'DELETE', path });
      }
    });

    test('no retry of CompleteMultipartUpload after its first answer meets NoSuchUpload, in whatever process', async () => {
      let refusals = 0;
      for (let round = 0; round < completions; round += 1) {
        const key = `completed-${round}`;
        const to = { bucket: 'plain', key, uploadId: await createUpload(world.a, 'plain', key) };
        const etag = await uploadPart(world.b, { ...to, part: 1 }, Buffer.from(`part of ${round}`));
        const spec = completeSpec(to, [etag]);
        let answeredAt = Number.POSITIVE_INFINITY;
        const complete = async (client: LoadClient): Promise<string> => {
          for (let tries = 0; tries < 1000; tries += 1) {
            const sentAt = performance.now();
            const { status, text } = await client.send(spec);
            if (status === 200) {
              answeredAt = Math.min(answeredAt, performance.now());
              return elements(text, 'ETag')[0] ?? '';
            }
            refusals += 1;
            expect([status, elements(text, 'Code')[0]], `round ${round}`).toEqual([404, 'NoSuchUpload']);
            expect(text).toContain('Send the request again');
            expect(sentAt, `round ${round}: a retry after the first answer`).toBeLessThan(answeredAt);
          }
          throw new Error(`round ${round} never ends`);
        };
        const etags = await Promise.all(world.clients.slice(0, 4).map(complete));
        expect(new Set(etags).size, `round ${round}`).toBe(1);
        // The retry gets the same answer after the object was overwritten.
        await world.a.expect({ method: 'PUT', path: pathOf('plain', key), body: 'overwritten' });
        expect(await Promise.all([world.a, world.b].map(complete))).toEqual([etags[0], etags[0]]);
      }
      expect(refusals).toBeGreaterThan(0);
    });

    for (const rival of ['CompleteMultipartUpload', 'AbortMultipartUpload'] as const) {
      test(`CompleteMultipartUpload and a concurrent ${rival} have one result`, async () => {
        for (let round = 0; round < 20; round += 1) {
          const key = `${rival}-${round}`;
          const to = { bucket: 'versioned', key, uploadId: await createUpload(world.a, 'versioned', key) };
          const etag = await uploadPart(world.b, { ...to, part: 1 }, Buffer.from(`part of ${round}`));
          const spec = completeSpec(to, [etag]);
          const abort = {
            method: 'DELETE',
            path: pathOf('versioned', key),
            query: { uploadId: to.uploadId },
          };
          const [one, other] = await Promise.all([
            world.a.send(spec),
            world.b.send(rival === 'AbortMultipartUpload' ? abort : spec),
          ]);
          const { text } = await world.b.expect({
            path: pathOf('versioned'),
            query: { versions: '', prefix: key },
          });
          const versions = elements(text, 'VersionId');
          const statuses = [one.status, other.status].join();
          if (rival === 'AbortMultipartUpload') {
            expect(['200,404', '404,204'], `round ${round}`).toContain(statuses);
            expect(versions).toHaveLength(one.status === 200 ? 1 : 0);
            continue;
          }
          expect(['200,404', '404,200', '200,200'], `round ${round}`).toContain(statuses);
          expect(versions).toHaveLength(1);
          for (const answer of [one, other])
            if (answer.status === 200) expect(answer.headers['x-amz-version-id']).toBe(versions[0]);
          // The loser of the race gets the same answer when it retries.
          expect((await world.b.expect(spec)).headers['x-amz-version-id']).toBe(versions[0]);
        }
      });
    }
  });
}

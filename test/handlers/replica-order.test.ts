/** Replicas go to their place among the versions of a key, on every backend of metadata. @storage */
import { describe, expect, test } from 'vitest';
import { backends } from '../support/gateway.ts';
import { markerAt, openSite, sendObject, sendState, versionAt, written } from '../support/replicas.ts';

describe.each(backends)('on %s', (backend) => {
  test('a replica that is older than the current version becomes a noncurrent version at its place', async () => {
    await using site = await openSite({ backend });
    const { client } = site;
    const now = Date.now();
    const ids = [30_000, 10_000, 20_000].map((ago) => versionAt(now - ago));
    const local = await client.put('/bucket/key', { body: 'local' });
    for (const version of ids) {
      const sent = await sendObject(client, '/bucket/key', written(version, { version }), version);
      expect(sent.status, sent.text).toBe(200);
    }
    const listed = await client.get('/bucket?versions');
    expect(listed.all('VersionId')).toEqual([local.header('*-version-id'), ...ids.toSorted().reverse()]);
    expect(listed.all('IsLatest')).toEqual(['true', 'false', 'false', 'false']);
    for (const version of ids)
      expect((await client.get(`/bucket/key?versionId=${version}`)).text).toBe(version);
    expect((await client.get('/bucket/key')).text).toBe('local');
    expect(await site.usage('bucket')).toEqual({ bytes: 5 + 96, objects: 4 });
  });

  test('delete markers and null versions of other sites go to their places', async () => {
    await using site = await openSite({ backend });
    const { client } = site;
    const now = Date.now();
    const [first, second, third, fourth] = [9000, 6000, 3000, 1000].map((ago) => versionAt(now - ago)) as [
      string,
      string,
      string,
      string,
    ];
    const outcomes = [
      await sendState(client, '/bucket/key', markerAt(fourth)),
      await sendObject(client, '/bucket/key', written('2', { version: second, isNull: true }), '2'),
      await sendState(client, '/bucket/key', markerAt(first)),
      // The newest null version wins, in any order of arrival.
      await sendObject(client, '/bucket/key', written('3', { version: third, isNull: true }), '3'),
      await sendObject(client, '/bucket/key', written('2', { version: second, isNull: true }), '2'),
    ].map((answer) => answer.header('*-replica-outcome'));
    expect(outcomes).toEqual(['stored', 'stored', 'stored', 'stored', 'superseded']);
    expect((await client.get('/bucket/key')).header('*-delete-marker')).toBe('true');
    expect((await client.get('/bucket/key?versionId=null')).text).toBe('3');
    const listed = await client.get('/bucket?versions');
    expect([...listed.all('VersionId')].sort()).toEqual([first, fourth, 'null'].sort());
    expect(await site.usage('bucket')).toEqual({ bytes: 1, objects: 1 });
    await client.delete(`/bucket/key?versionId=${fourth}`);
    expect((await client.get('/bucket/key')).text).toBe('3');
    await site.gc();
    expect((await site.stored()).length).toBe(1);
  });

  test('of concurrent requests with one version one stores it, and the bytes of the others are removed', async () => {
    await using site = await openSite({ backend });
    const document = written('content', { version: versionAt(Date.now() - 1000) });
    const answers = await Promise.all(
      [1, 2, 3, 4].map(() => sendObject(site.client, '/bucket/key', document, 'content')),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const outcomes = answers.map((answer) => answer.header('*-replica-outcome'));
    expect(outcomes.toSorted()).toEqual(['present', 'present', 'present', 'stored']);
    await site.gc();
    expect((await site.client.get('/bucket/key')).text).toBe('content');
    expect(await site.stored()).toEqual(await site.owned('bucket'));
    expect(await site.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
  });
});

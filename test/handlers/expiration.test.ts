/** The expiration header of every object and upload that lifecycle rules apply to. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const rules = (...inside: readonly string[]): string =>
  `<LifecycleConfiguration>${inside.map((each) => `<Rule><Status>Enabled</Status>${each}</Rule>`).join('')}</LifecycleConfiguration>`;
const days = (count: number): string => `<Expiration><Days>${count}</Days></Expiration>`;
const byTag = '<Filter><Tag><Key>keep</Key><Value>no</Value></Tag></Filter>';
const abort =
  '<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>';

describe.each(backends)('on %s', (backend) => {
  const open = async (...inside: readonly string[]) => {
    const world = await openGateway({ backend, clock: virtualClock(Date.parse('2026-01-10T10:30:00Z')) });
    await world.client.put('/bucket');
    if (inside.length > 0) await world.client.put('/bucket?lifecycle', { body: rules(...inside) });
    return world;
  };
  const inThree = 'expiry-date="Wed, 14 Jan 2026 00:00:00 GMT", rule-id="r%201"';

  test('every write and read of an object returns its expiration', async () => {
    await using world = await open(`<ID>r 1</ID><Filter/>${days(3)}`);
    const { client } = world;
    const put = await client.put('/bucket/key', { body: 'x' });
    const copied = await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } });
    const uploadId = await createUpload(client, '/bucket/parts');
    const parts = [await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'x' })];
    const completed = await complete(client, '/bucket/parts', { uploadId, parts });
    const read = [await client.get('/bucket/key'), await client.head('/bucket/parts')];
    for (const answer of [put, copied, completed, ...read]) {
      expect([answer.status, answer.header('*-expiration')]).toEqual([200, inThree]);
    }
    await client.delete('/bucket?lifecycle');
    expect((await client.get('/bucket/key')).header('*-expiration')).toBeUndefined();
  });

  test('only objects that a rule applies to, and only their latest version', async () => {
    await using world = await open(`<ID>t</ID>${byTag}${days(1)}`);
    const { client } = world;
    await setVersioning(client, 'bucket', 'Enabled');
    const plain = await client.put('/bucket/key', { body: '1' });
    expect(plain.header('*-expiration')).toBeUndefined();
    const tagged = await client.put('/bucket/key', { body: '2', headers: { '*-tagging': 'keep=no' } });
    expect(tagged.header('*-expiration')).toContain('rule-id="t"');
    expect((await client.get('/bucket/key')).header('*-expiration')).toContain('rule-id="t"');
    const versionId = tagged.header('*-version-id') ?? '';
    // A reader that names the version is not told, as in the public service.
    const named = await client.get('/bucket/key', { query: { versionId } });
    expect([named.text, named.header('*-expiration')]).toEqual(['2', undefined]);
    await client.put('/bucket/key', { body: '3' });
    const old = await client.get('/bucket/key', { query: { versionId } });
    expect([old.text, old.header('*-expiration')]).toEqual(['2', undefined]);
  });

  test('CreateMultipartUpload returns the abort date', async () => {
    await using world = await open(`<ID>u</ID><Filter><Prefix>up/</Prefix></Filter>${abort}`);
    const { client } = world;
    const created = await client.post('/bucket/up/key?uploads');
    const listed = await client.get('/bucket/up/key', { query: { uploadId: created.one('UploadId') ?? '' } });
    for (const answer of [created, listed]) {
      expect(answer.header('*-abort-date')).toBe('Tue, 13 Jan 2026 00:00:00 GMT');
      expect(answer.header('*-abort-rule-id')).toBe('u');
    }
    expect((await client.post('/bucket/other?uploads')).header('*-abort-date')).toBeUndefined();
    expect((await client.put('/bucket/up/key', { body: '' })).header('*-expiration')).toBeUndefined();
  });
});

/** Times in replies have whole seconds, so that lists, headers and conditions agree on when an object was changed. @storage */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { allow, must } from '../support/iam-users.ts';

const iso = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^<]*/g;
const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
/** The gateway's clock, always within a second and never at its beginning. */
const clockWithin = () => {
  let seconds = 1_764_000_000;
  return {
    now: () => {
      seconds += 1;
      return seconds * 1000 + 789;
    },
  };
};

async function openAt(backend: (typeof backends)[number]) {
  const { systemClock } = await import('../../src/ports/clock.ts');
  return openGateway({ backend, clock: { ...systemClock, ...clockWithin() } });
}

describe.each(backends)('times on %s', (backend) => {
  test('all of a reply are whole seconds, and a list shows what HEAD shows', async () => {
    await using world = await openAt(backend);
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket?versioning', { body: enabled });
    await client.put('/bucket/key', { body: 'content' });
    await client.put('/bucket/gone', { body: 'content' });
    await client.delete('/bucket/gone');
    const uploadId = (await client.post('/bucket/parts?uploads')).one('UploadId');
    await client.put(`/bucket/parts?uploadId=${uploadId}&partNumber=1`, { body: 'part' });
    const copySource = { headers: { '*-copy-source': '/bucket/key' } };
    const replies = [
      await client.put('/bucket/copy', copySource),
      await client.put(`/bucket/parts?uploadId=${uploadId}&partNumber=2`, copySource),
      await client.get(`/bucket/parts?uploadId=${uploadId}`),
      await client.get('/bucket?uploads'),
      await client.get('/bucket'),
      await client.get('/bucket?list-type=2'),
      await client.get('/bucket?versions'),
      await client.get('/'),
    ];
    for (const reply of replies) {
      expect(reply.status).toBe(200);
      const times = reply.text.match(iso) ?? [];
      expect(times.length).toBeGreaterThan(0);
      for (const time of times) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/);
    }
    const shown = Date.parse((await client.head('/bucket/key')).header('last-modified') ?? '');
    for (const path of [
      '/bucket?prefix=key',
      '/bucket?list-type=2&prefix=key',
      '/bucket?versions&prefix=key',
    ])
      expect(Date.parse((await client.get(path)).one('LastModified') ?? ''), path).toBe(shown);
  });

  test('a condition with the time of a list, or of a reply, finds the object unchanged', async () => {
    await using world = await openAt(backend);
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    const listed = (await client.get('/bucket?list-type=2')).one('LastModified') ?? '';
    const time = new Date(listed).toUTCString();
    expect((await client.head('/bucket/key')).header('last-modified')).toBe(time);
    const get = (headers: Record<string, string>) => client.get('/bucket/key', { headers });
    expect((await get({ 'if-modified-since': time })).status).toBe(304);
    expect((await get({ 'if-unmodified-since': time })).status).toBe(200);
    expect((await get({ 'if-range': time, range: 'bytes=0-1' })).status).toBe(206);
    const copy = (name: string) =>
      client.put('/bucket/copy', {
        headers: { '*-copy-source': '/bucket/key', [`*-copy-source-${name}`]: time },
      });
    expect((await copy('if-modified-since')).status).toBe(412);
    expect((await copy('if-unmodified-since')).status).toBe(200);
    const body = `<Delete><Object><Key>copy</Key><LastModifiedTime>${(
      await client.get('/bucket?prefix=copy')
    ).one('LastModified')}</LastModifiedTime></Object></Delete>`;
    expect((await client.post('/bucket?delete', { body })).all('Deleted').length).toBe(1);
    const gone = await client.delete('/bucket/key', {
      headers: { '*-if-match-last-modified-time': time },
    });
    expect(gone.status).toBe(204);
  });
});

test('the dates of IAM and STS are whole seconds', async () => {
  await using world = await openAt('memory');
  const iam = openActions(world);
  await must(iam('CreateUser', { UserName: 'dave' }));
  const replies = [
    await must(iam('CreateAccessKey', { UserName: 'dave' })),
    await must(iam('ListAccessKeys', { UserName: 'dave' })),
    await must(iam('GetUser', { UserName: 'dave' })),
    await must(iam('ListUsers', {})),
    await must(iam('CreatePolicy', { PolicyName: 'p', PolicyDocument: allow('s3:*') })),
    await must(iam('ListPolicies', { Scope: 'Local' })),
    await must(iam('GetSessionToken', {})),
  ];
  for (const reply of replies) {
    const times = reply.text.match(iso) ?? [];
    expect(times.length).toBeGreaterThan(0);
    for (const time of times) expect(time).toMatch(/:\d\d(\.000)?Z$/);
  }
});

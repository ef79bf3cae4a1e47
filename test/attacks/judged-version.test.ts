/** A caller is judged by the version that its request changes, also where another one takes its place meanwhile. */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { ambush } from '../support/ambush.ts';
import { openGateway } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';

const tagging = '<Tagging><TagSet><Tag><Key>state</Key><Value>mine</Value></Tag></TagSet></Tagging>';
const later = new Date(Date.now() + 5 * 24 * 60 * 60 * 1000).toISOString();
const retention = `<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>${later}</RetainUntilDate></Retention>`;
const restore = '<RestoreRequest><Days>7</Days></RestoreRequest>';

/** Carol may change no version that has this tag. */
const denied = policyOf({
  Effect: 'Deny',
  Action: 's3:*',
  Resource: 'arn:aws:s3:::bucket/*',
  Condition: { StringEquals: { 's3:ExistingObjectTag/state': 'final' } },
  Principal: { AWS: 'arn:aws:iam::alice-account:user/carol' },
});

test.each([
  ['PutObjectTagging', 'PUT', '?tagging', tagging],
  ['DeleteObjectTagging', 'DELETE', '?tagging', undefined],
  ['PutObjectLegalHold', 'PUT', '?legal-hold', '<LegalHold><Status>ON</Status></LegalHold>'],
  ['PutObjectRetention', 'PUT', '?retention', retention],
  ['RestoreObject', 'POST', '?restore', restore],
] as const)(
  '%s is refused where a version that the caller may not change takes the place of the authorized one',
  async (_, method, query, body) => {
    const trap = ambush();
    await using world = await openGateway({ wrap: trap.wrap });
    const { client } = world;
    await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    const put = (state: string) =>
      client.put('/bucket/key', {
        body: state,
        headers: { '*-tagging': `state=${state}`, '*-storage-class': 'GLACIER' },
      });
    await put('draft');
    expect((await client.put('/bucket?policy', { body: denied })).status).toBe(204);
    const { credential } = await openUser(world, 'carol', { policy: allow('s3:*') });
    const ask = () =>
      world.as({ credential }).send(method, `/bucket/key${query}`, body === undefined ? {} : { body });
    trap.rightBefore('objects', async () => {
      expect((await put('final')).status).toBe(200);
    });
    expect((await ask()).code).toBe('AccessDenied');
    const tags = await client.get('/bucket/key?tagging');
    expect(tags.all('Value')).toEqual(['final']);
    expect((await client.get('/bucket/key?legal-hold')).code).toBe('NoSuchObjectLockConfiguration');
    expect((await client.get('/bucket/key?retention')).code).toBe('NoSuchObjectLockConfiguration');
    expect((await client.head('/bucket/key')).header('*-restore')).toBeUndefined();
    expect((await ask()).status).toBe(403);
  },
);

test('PutObjectTagging is refused where the version gets a tag meanwhile that denies it, and else changes the newer one', async () => {
  const trap = ambush();
  await using world = await openGateway({ wrap: trap.wrap });
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content', headers: { '*-tagging': 'state=draft' } });
  expect((await client.put('/bucket?policy', { body: denied })).status).toBe(204);
  const { credential } = await openUser(world, 'carol', { policy: allow('s3:*') });
  const ask = () => world.as({ credential }).put('/bucket/key?tagging', { body: tagging });
  trap.rightBefore('objects', () => client.put('/bucket/key', { body: 'newer' }));
  expect((await ask()).status).toBe(200);
  const final = tagging.replace('mine', 'final');
  trap.rightBefore('objects', () => client.put('/bucket/key?tagging', { body: final }));
  expect((await ask()).code).toBe('AccessDenied');
  expect((await client.get('/bucket/key?tagging')).all('Value')).toEqual(['final']);
});

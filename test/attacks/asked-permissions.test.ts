/** What a caller asks about its permissions tells no more than the requests themselves would. */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';

const questions = ['hidden/a', 'other'].map((key) => ({ action: 's3:GetObject', bucket: 'box', key }));

/** alice's bucket, whose policy denies bob's account some of its keys, and allows it none. */
async function openBox(): Promise<GatewayWorld> {
  const world = await openGateway();
  await world.client.put('/box');
  const body = policyOf({ Effect: 'Deny', Action: 's3:GetObject', Resource: 'arn:aws:s3:::box/hidden/*' });
  expect((await world.client.put('/box?policy', { body })).status).toBe(204);
  return world;
}

test('CheckPermissions does not tell another account which keys the policy of a bucket denies', async () => {
  await using world = await openBox();
  const requests = [await world.bob.get('/box/hidden/a'), await world.bob.get('/box/other')];
  expect(requests.map((answer) => answer.one('Message'))).toEqual(['Access Denied', 'Access Denied']);
  const body = JSON.stringify({ questions });
  const { status, text } = await world.bob.post('/admin/v1/session/permissions', { body });
  expect(status, text).toBe(200);
  expect(JSON.parse(text).answers).toEqual([{ allowed: false }, { allowed: false }]);
});

test('CheckPermissions tells the account of the bucket, and operators, why', async () => {
  await using world = await openBox();
  const body = JSON.stringify({ questions });
  const { text } = await world.client.post('/admin/v1/session/permissions', { body });
  const [hidden, other] = JSON.parse(text).answers;
  expect([hidden, other]).toEqual([{ allowed: false, reason: 'explicit-deny' }, { allowed: true }]);
  const { answers } = await operatorOf(world).must('POST', '/session/permissions', { questions });
  expect(answers).toMatchObject([{ allowed: false, reason: 'explicit-deny' }, { allowed: false }]);
});

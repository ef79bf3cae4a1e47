/** The same name twice in one text of a request, where readers of the first and of the last would disagree. */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { policyText } from '../support/post-form.ts';
import { form, openFormWorld, sign } from './form-world.ts';

const statement = (more: string): string =>
  `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"${more}}]}`;

describe('a name that is given twice is refused', () => {
  test.each([
    [
      'versioning',
      '<VersioningConfiguration><Status>Enabled</Status><Status>Suspended</Status></VersioningConfiguration>',
      'MalformedXML',
    ],
    [
      'tagging',
      '<Tagging><TagSet><Tag><Key>a</Key><Key>b</Key><Value>c</Value></Tag></TagSet></Tagging>',
      'MalformedXML',
    ],
    [
      'publicAccessBlock',
      '<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><BlockPublicAcls>false</BlockPublicAcls></PublicAccessBlockConfiguration>',
      'MalformedXML',
    ],
    ['policy', statement(',"Effect":"Deny"'), 'MalformedPolicy'],
    ['policy', statement(String.raw`,"\u0045ffect":"Deny"`), 'MalformedPolicy'],
  ])('in the body of ?%s: %s', async (family, body, code) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const answer = await world.client.put(`/bucket?${family}`, { body });
    expect([answer.status, answer.code]).toEqual([400, code]);
  });

  test('in the JSON body of an admin request, also where one is escaped or lies deeper', async () => {
    await using world = await openGateway();
    const admin = world.as({ credential: operator });
    for (const body of [
      '{"deep":true,"deep":false}',
      String.raw`{"deep":true,"\u0064eep":false}`,
      '{"other":[{"a":"b,{","a":2}]}',
    ]) {
      const answer = await admin.post('/admin/v1/fsck', { body });
      expect([answer.status, answer.text], body).toEqual([400, expect.stringContaining('more than once')]);
    }
  });

  test('in the parameters of an IAM action', async () => {
    await using world = await openGateway();
    const answer = await world.as({ service: 'iam' }).post('/', {
      payload: 'missing',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'Action=CreateUser&Version=2010-05-08&UserName=a&UserName=b',
    });
    expect(answer.status).toBe(400);
    expect((await openActions(world)('GetUser', { UserName: 'b' })).code).toBe('NoSuchEntity');
  });

  test('in the policy document of a form', async () => {
    const { world, post, refuses } = await openFormWorld();
    await using _world = world;
    const text = policyText({ conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']] });
    const policy = text.replace(/}$/, ',"conditions":[]}');
    await refuses(post(form({}, { policy })), 400, 'InvalidPolicyDocument', 'more than once');
    expect(sign({ policy })['policy']).toBe(Buffer.from(policy).toString('base64'));
  });
});

/** Concurrent changes of one configuration: none is refused, and the last one wins (public API). */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { aclXml, grantsIn, policyOf } from '../support/access.ts';
import { faulty } from '../support/faulty.ts';
import { backends, openGateway, person } from '../support/gateway.ts';
import { openClient } from '../support/gateway-client.ts';

const writers = 50;
/** The number of gateways. Each has its own mutexes, like a separate process. */
const processes = 4;

const tagging = (value: number): string =>
  `<Tagging><TagSet><Tag><Key>writer</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;

describe.each(backends)('on %s', (backend) => {
  test.each([
    ['PutBucketAcl', 'acl', (n: number) => aclXml('alice-account', `account-${n} READ`)],
    ['PutBucketTagging', 'tagging', tagging],
    [
      'PutBucketPolicy',
      'policy',
      (n: number) =>
        policyOf({
          Sid: `s${n}`,
          Principal: { AWS: 'bob-account' },
          Action: 's3:GetObject',
          Resource: 'arn:aws:s3:::bucket/*',
        }),
    ],
    [
      'PutBucketVersioning',
      'versioning',
      (n: number) =>
        `<VersioningConfiguration><Status>${n % 2 === 0 ? 'Enabled' : 'Suspended'}</Status></VersioningConfiguration>`,
    ],
  ] as const)('%s succeeds for each of 50 concurrent writers', async (_, family, bodyOf) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
    const clients = Array.from({ length: processes }, () => {
      const context = { ...world.context, metadata: faulty(world.context.metadata, {}) };
      return openClient(createGateway(context), systemClock, { credential: person('alice') });
    });
    const answers = await Promise.all(
      Array.from({ length: writers }, (_, n) =>
        clients[n % processes]?.put(`/bucket?${family}`, { body: bodyOf(n) }),
      ),
    );
    const refused = answers.filter((answer) => answer === undefined || answer.status >= 300);
    expect(refused.map((answer) => `${answer?.status} ${answer?.text}`)).toEqual([]);
    if (family === 'acl')
      expect(grantsIn(await world.client.get('/bucket?acl'))).toEqual([
        expect.stringMatching(/^account-\d+ READ$/),
      ]);
  });

  test('PutUserPolicy succeeds for each of 50 concurrent writers of an account', async () => {
    await using world = await openGateway({ backend });
    const iam = world.as({ credential: person('alice'), service: 'iam' });
    const form = (fields: Readonly<Record<string, string>>) => ({
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ Version: '2010-05-08', ...fields }).toString(),
    });
    expect((await iam.post('/', form({ Action: 'CreateUser', UserName: 'user' }))).status).toBe(200);
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource: '*' }],
    });
    const answers = await Promise.all(
      Array.from({ length: writers }, (_, n) =>
        iam.post(
          '/',
          form({
            Action: 'PutUserPolicy',
            UserName: 'user',
            PolicyName: `p${n % 5}`,
            PolicyDocument: policy,
          }),
        ),
      ),
    );
    expect(answers.filter(({ status }) => status !== 200).map(({ text }) => text)).toEqual([]);
  });
});

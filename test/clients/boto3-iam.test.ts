/** boto3 with its default settings on IAM and STS. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Boto, openBoto } from './drivers.ts';

let boto: Boto;
beforeAll(async () => {
  boto = await openBoto('boto3-iam.py');
});
afterAll(() => boto?.world.stop());

test('users are made, listed, refused by code, and sign with keys of their own', async () => {
  expect(await boto.step('users')).toEqual({
    arn: 'arn:aws:iam::alice-account:user/staff/frank',
    tags: [{ Key: 'Team', Value: 'ü' }],
    document: ['s3:*'],
    listed: ['frank'],
    refused: [
      ['EntityAlreadyExists', 409],
      ['MalformedPolicyDocument', 400],
      ['NoSuchEntity', 404],
    ],
    buckets: ['boto-iam'],
  });
});

test('clients with an empty region, or with none, are served', async () => {
  expect(await boto.step('regions')).toEqual({ iam: 200, sts: 200, s3: 200 });
});

test('a session signs requests, URLs of both versions and forms', async () => {
  expect(await boto.step('roles')).toEqual({
    arn: 'arn:aws:sts::alice-account:assumed-role/boto/boto',
    urls: { s3: 'by a session', s3v4: 'by a session' },
    refused: [
      ['InvalidToken', 400],
      ['AccessDenied', 403],
    ],
    form: [204, 'by a form'],
  });
});

/** No error reply and no access log holds a secret that a request carried. */
import { expect, test } from 'vitest';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { tasksOf } from '../support/recorded.ts';
import { type SignedRequest, signer } from '../support/sign.ts';

const key = Buffer.alloc(32, 'customer').toString('base64');
const sign = signer({ accessKey: alice.accessKey, secretKey: alice.secretKey, host: 'localhost' });

/** Ways to write one secret into a query: unchanged, in another case, with an escaped letter in the name, with a bad escape. */
const secrets: readonly (readonly [name: string, value: string])[] = [
  ['X-Amz-Server-Side-Encryption-Customer-Key', key],
  ['x-amz-server-side-encryption-customer-key', key],
  ['x-amz-copy-source-server-side-encryption-customer-key', key],
  ['x-amz-server-side-encryption-customer-ke%79', key],
  ['X-Amz-Security-Token', 'a-session-token-of-alice'],
  ['X-Amz-Security-Toke%6E', 'a-session-token-of-alice'],
  ['x-amz-mfa', 'serial-123456'],
];

async function openLogged(): Promise<GatewayWorld> {
  const world = await openGateway();
  for (const bucket of ['bucket', 'logs']) await world.client.put(`/${bucket}`);
  const logging =
    '<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix/></LoggingEnabled></BucketLoggingStatus>';
  expect((await world.client.put('/bucket?logging', { body: logging })).status).toBe(200);
  return world;
}

const withTarget = (request: SignedRequest, more: string): SignedRequest => ({
  ...request,
  target: `${request.target}&${more}`,
});

/** The spellings of a secret that a reader of the text could use. */
const spellings = (value: string): readonly string[] => [
  value,
  encodeURIComponent(value),
  Buffer.from(value)
    .toString('hex')
    .replace(/(..)(?!$)/g, '$1 '),
];

test.each(secrets)(
  'neither SignatureDoesNotMatch nor the access log holds the value of %s',
  async (name, value) => {
    await using world = await openLogged();
    const parameter = `${name}=${encodeURIComponent(value)}`;
    const path = '/bucket/key';
    const answers = [
      await world.client.sendRaw(withTarget(sign.presign({ path }), parameter)),
      await world.client.sendRaw(withTarget(sign.presignV2({ path }), parameter)),
      await world.client.sendRaw(withTarget(sign.presign({ path }), `${parameter}%ff`)),
      await world.client.sendRaw({
        ...sign.presign({ path }),
        headers: [
          ['host', 'localhost'],
          ['referer', `https://localhost/?${parameter}`],
        ],
      }),
    ];
    for (const { status } of answers) expect(status).toBeGreaterThanOrEqual(400);
    await world.context.lateWrites.flush();
    const log = JSON.stringify(await tasksOf(world.context, 'access-log'));
    expect(log).toContain('GET /bucket/key');
    for (const spelling of spellings(value)) {
      for (const answer of answers) expect(answer.text).not.toContain(spelling);
      expect(log).not.toContain(spelling);
    }
  },
);

test('SignatureDoesNotMatch of version 4 and 2 holds no secret of a header', async () => {
  await using world = await openLogged();
  const headers = {
    'x-amz-server-side-encryption-customer-key': key,
    'x-amz-mfa': 'serial-123456',
    'x-amz-meta-open': 'shown',
  };
  const spoiled = { signature: () => 'a'.repeat(64) };
  const requests = [
    sign.request({ path: '/bucket/key', headers, tamper: spoiled }),
    { ...sign.presignV2({ path: '/bucket/key', headers }), method: 'DELETE' },
  ];
  for (const request of requests) {
    const answer = await world.client.sendRaw(request);
    expect(answer.code).toBe('SignatureDoesNotMatch');
    expect(answer.text).toContain('shown');
    for (const value of [key, 'serial-123456'])
      for (const spelling of spellings(value)) expect(answer.text).not.toContain(spelling);
  }
});

/** Audit rows, logs, metrics and traces contain no secret of the requests that they record. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { alice, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { auditRows, tasksOf } from '../support/recorded.ts';
import { awaitDefaultPeer, defaultRole } from '../support/replication-role.ts';
import { signer } from '../support/sign.ts';

const customerKey = Buffer.alloc(32, 'customer');
const encryption = {
  '*-server-side-encryption-customer-algorithm': 'AES256',
  '*-server-side-encryption-customer-key': customerKey.toString('base64'),
  '*-server-side-encryption-customer-key-md5': createHash('md5').update(customerKey).digest('base64'),
};

test('no secret is in audit rows, events, replication tasks or access logs', async () => {
  await using world = await openGateway({
    settings: {
      SVC_SSE_C_REQUIRE_TLS: 'false',
      SVC_NOTIFY_TARGETS:
        '[{"id":"jobs","accounts":["*"],"type":"nats","url":"nats://example.com","subject":"events","token":"hidden-token"},{"id":"other","accounts":["*"],"type":"redis","url":"redis://example.com","key":"events","password":"swordfish"}]',
    },
  });
  const { client, context } = world;
  await awaitDefaultPeer(world);
  for (const bucket of ['bucket', 'logs']) await client.put(`/${bucket}`);
  await setVersioning(client, 'bucket', 'Enabled');
  const documents = {
    logging:
      '<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix/></LoggingEnabled></BucketLoggingStatus>',
    notification:
      '<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:1:jobs</Queue></QueueConfiguration></NotificationConfiguration>',
    replication: `<ReplicationConfiguration><Role>${defaultRole}</Role><Rule><ID>r</ID><Prefix></Prefix><Status>Enabled</Status><Destination><Bucket>arn:aws:s3:::other</Bucket></Destination></Rule></ReplicationConfiguration>`,
  };
  for (const [name, body] of Object.entries(documents))
    expect((await client.put(`/bucket?${name}`, { body })).status).toBe(200);

  expect((await client.put('/bucket/key', { body: 'plaintext', headers: encryption })).status).toBe(200);
  expect((await client.get('/bucket/key', { headers: encryption })).text).toBe('plaintext');
  const sign = signer({ accessKey: alice.accessKey, secretKey: alice.secretKey, host: 'localhost' });
  const requests = [
    sign.presign({ method: 'GET', path: '/bucket/key' }),
    sign.presign({
      method: 'PUT',
      path: '/bucket/other',
      query: { 'X-Amz-Security-Token': 'a-session-token' },
    }),
    sign.request({ method: 'PUT', path: '/bucket/other', body: 'x' }),
  ];
  for (const request of requests) await client.sendRaw(request);
  await context.lateWrites.flush();

  const recorded = {
    audit: await auditRows(context),
    notify: await tasksOf(context, 'notify'),
    replication: await tasksOf(context, 'replication'),
    accessLog: await tasksOf(context, 'access-log'),
  };
  for (const [kind, rows] of Object.entries(recorded)) expect(rows.length, kind).toBeGreaterThan(1);
  const text = JSON.stringify(recorded);
  const signatures = requests.flatMap(({ target, headers }) => [
    ...(/X-Amz-Signature=(\w+)/.exec(target)?.slice(1) ?? []),
    ...headers.flatMap(([, value]) => /Signature=(\w+)/.exec(value)?.slice(1) ?? []),
  ]);
  expect(signatures).toHaveLength(3);
  const secrets = [alice.secretKey, ...Object.values(encryption).slice(1), ...signatures];
  for (const secret of [...secrets, 'a-session-token', 'hidden-token', 'swordfish', 'plaintext']) {
    expect(text).not.toContain(secret);
    expect(text).not.toContain(encodeURIComponent(secret));
  }
});

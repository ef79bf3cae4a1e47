/** Replication into a bucket with a signing key of its own. */
import { expect, test, vi } from 'vitest';
import { operatorOf } from '../support/clusters.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { keys, link, openSite, run, settings, settled, until } from '../support/replication-sites.ts';

test('versions wait until the peer signs with the key of the bucket, and the reason says so', async () => {
  const [near, far] = [
    await openSite(),
    await openSite({
      settings: { ...settings, ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first' },
    }),
  ];
  await link(near, far);
  const rotated = await operatorOf(far.world).must('POST', '/buckets/bucket/signing-key/rotate');
  run(near);
  await near.world.client.put('/bucket/key', { body: 'text' });
  const operator = operatorOf(near.world);
  await vi.waitFor(async () => {
    const status = await operator.must('GET', '/replication/status');
    expect(JSON.stringify(status)).toMatch(
      /SignatureDoesNotMatch: .*a signing key of its own needs a peer with that key/,
    );
  }, until);
  await operator.must('PUT', '/replication/peers/far', {
    ...keys,
    secretKey: rotated['secret_access_key'],
    endpoint: far.endpoint,
  });
  await settled(near, '/bucket/key', 'COMPLETED');
});

/** Buckets with a signing key, and the secrets that sign requests about them. */
import { createHmac } from 'node:crypto';
import { expect } from 'vitest';
import type { Credential } from '../../src/ports/credentials.ts';
import { type GatewayWorld, operator } from './gateway.ts';

const hmac = (key: string, message: string): string =>
  createHmac('sha256', key).update(message).digest('hex');

/** The secret for every caller but the owner of the bucket; see docs/operations/keys.md. */
export const sharedSecret = (bucketSecret: string): string => hmac(bucketSecret, 'sluice-shared-secret');

/** The credential of a caller that signs as itself in a bucket with this secret. */
export const combined = <C extends Pick<Credential, 'secretKey'>>(
  credential: C,
  bucketSecret: string,
): C => ({
  ...credential,
  secretKey: hmac(credential.secretKey, sharedSecret(bucketSecret)),
});

/** Rotates the key of a bucket; returns its secret. */
export async function rotateKey(world: GatewayWorld, bucket: string): Promise<string> {
  const answer = await world
    .as({ credential: operator })
    .post(`/admin/v1/buckets/${bucket}/signing-key/rotate`);
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return JSON.parse(answer.text).secret_access_key;
}

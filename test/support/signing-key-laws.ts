/** What a signing key promises with every key provider. The worlds have a bucket `/bucket`, and a default key at the provider. */
import { expect } from 'vitest';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import type { SigningKey } from '../../src/metadata/tables.ts';
import { alice, type GatewayWorld, operator } from './gateway.ts';

const rotate = (world: GatewayWorld) =>
  world.as({ credential: operator }).post('/admin/v1/buckets/bucket/signing-key/rotate');

async function change(
  { context: { metadata } }: GatewayWorld,
  bucket: string,
  to: (key: SigningKey | undefined) => SigningKey | undefined,
): Promise<void> {
  const found = await findBucket(metadata, bucket);
  const signingKey = to(found?.row.signingKey);
  if (found === undefined || signingKey === undefined) throw new Error(`${bucket} has no signing key`);
  await replaceBucket(metadata, found, { ...found.row, signingKey });
}

/** A wrapped key that was moved to another bucket, or changed, is `KeyTampered`. */
export async function isBoundToItsBucket(world: GatewayWorld): Promise<void> {
  expect((await rotate(world)).status).toBe(200);
  await world.client.put('/other');
  const { row } = (await findBucket(world.context.metadata, 'bucket')) ?? {};
  await change(world, 'other', () => row?.signingKey);
  const moved = await world.client.get('/other');
  expect([moved.status, moved.code]).toEqual([401, 'KeyTampered']);
  await change(world, 'bucket', (key) => key && { ...key, wrapped: flipLast(key.wrapped) });
  const changed = await world.client.get('/bucket');
  expect([changed.status, changed.code]).toEqual([401, 'KeyTampered']);
}

/** The last character is of the ciphertext or its tag in every format; the text of a transit engine is base64 itself. */
function flipLast(wrapped: string): string {
  const bytes = Buffer.from(wrapped, 'base64');
  const text = bytes.toString('latin1');
  if (!text.startsWith('vault:')) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    return bytes.toString('base64');
  }
  const [, version, sealed = ''] = text.split(':');
  const inner = Buffer.from(sealed, 'base64');
  inner[inner.length - 1] = (inner.at(-1) ?? 0) ^ 1;
  return Buffer.from(`vault:${version}:${inner.toString('base64')}`).toString('base64');
}

/** Of rotations at the same moment one is answered with a secret, and it holds. */
export async function holdsOneOfManyRotations(world: GatewayWorld): Promise<void> {
  const answers = await Promise.all(Array.from({ length: 4 }, () => rotate(world)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
  const held = answers.find(({ status }) => status === 200);
  const secretKey = JSON.parse(held?.text ?? '').secret_access_key;
  expect((await world.as({ credential: { ...alice, secretKey } }).get('/bucket')).status).toBe(200);
}

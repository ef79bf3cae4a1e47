/** Object keys: generated for a write, stored wrapped, unwrapped for a read (docs/adr/0006-encryption.md). */

import { fail } from '../../base/errors.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import type { Context } from '../../context.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { cipherKeyBytes, SecretUnreadable } from '../../ports/cryptography.ts';
import type { CustomerKey, KeyPlace, ObjectKey } from './extent-keys.ts';
import { generateKey, type KeyUser, unwrapKey } from './provider-key.ts';
import { type ChosenEncryption, chooseEncryption, type RequestedEncryption } from './requested-encryption.ts';

export type KeyCtx = Pick<
  Context,
  'caches' | 'clock' | 'hasher' | 'metadata' | 'random' | 'sealer' | 'keys' | 'config' | 'telemetry'
>;

const wrappingContext = ({ bucket, key }: KeyPlace): string => ['object-key', bucket.id, key].join('\0');

/** The key of a new object or upload; undefined when it is stored unencrypted. */
export async function drawObjectKey(
  ctx: KeyCtx,
  { bucket, key }: { readonly bucket: BucketRow; readonly key: string },
  { requested, user }: { readonly requested: RequestedEncryption; readonly user: KeyUser },
): Promise<ObjectKey | undefined> {
  const how = await chooseEncryption(ctx, bucket, requested);
  return how && draw(ctx, { bucket, key }, { how, user });
}

async function draw(
  ctx: KeyCtx,
  place: KeyPlace,
  { how, user }: { readonly how: ChosenEncryption; readonly user: KeyUser },
): Promise<ObjectKey> {
  switch (how.by) {
    case 'provider':
      return generateKey(ctx, place, { how, user });
    case 'customer': {
      const sealer = ctx.sealer.under(how.key.bytes);
      return wrapNew(ctx, place, { sealer, as: { by: 'customer', keyMd5: how.key.md5 } });
    }
    case 'service':
      return wrapNew(ctx, place, { sealer: ctx.sealer, as: { by: 'service' } });
  }
}

async function wrapNew(
  ctx: KeyCtx,
  place: KeyPlace,
  {
    sealer,
    as,
  }: {
    readonly sealer: Pick<KeyCtx['sealer'], 'seal'>;
    readonly as: { readonly by: 'service' } | { readonly by: 'customer'; readonly keyMd5: string };
  },
): Promise<ObjectKey> {
  const bytes = ctx.random.bytes(cipherKeyBytes);
  const wrapped = toBase64(await sealer.seal(bytes, wrappingContext(place)));
  return { bytes, encryption: { ...as, wrapped } };
}

/**
 * Opens the key of a content.
 * @throws AccessDenied for a wrong customer key and for a provider's key that the user may not use; or the key provider's error
 */
export async function openObjectKey(
  ctx: KeyCtx,
  place: KeyPlace,
  {
    encryption,
    customerKey,
    user,
  }: {
    readonly encryption: Encryption;
    readonly customerKey?: CustomerKey | undefined;
    readonly user: KeyUser;
  },
): Promise<ObjectKey> {
  assertCustomerKey(encryption, customerKey);
  if (encryption.by === 'provider')
    return { bytes: await unwrapKey(ctx, place, { stored: encryption, user }), encryption };
  const sealer = customerKey === undefined ? ctx.sealer : ctx.sealer.under(customerKey.bytes);
  const bytes = await sealer.open(fromBase64(encryption.wrapped), wrappingContext(place));
  if (bytes !== undefined) return { bytes, encryption };
  if (encryption.by === 'customer') throw fail('AccessDenied');
  throw new SecretUnreadable(
    `the key of ${place.key} in bucket ${place.bucket.id} does not open under any master key`,
  );
}

/** A customer key must be sent for an object that was encrypted with one, and for no other (public API). */
export function assertCustomerKey(
  encryption: Encryption | undefined,
  customerKey: CustomerKey | undefined,
): void {
  const isRequired = encryption?.by === 'customer';
  if (isRequired === (customerKey !== undefined)) return;
  throw fail(
    'InvalidRequest',
    isRequired
      ? 'The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.'
      : 'The encryption parameters are not applicable to this object.',
  );
}

/** A request that repeats the customer key of an upload must send the key that the upload began with. */
export function assertUploadKey(
  encryption: Encryption | undefined,
  customerKey: CustomerKey | undefined,
): void {
  if (customerKey === undefined) return;
  if (encryption?.by === 'customer' && customerKey.md5 !== encryption.keyMd5)
    throw fail(
      'InvalidRequest',
      'The provided encryption parameters did not match the ones used originally.',
    );
  assertCustomerKey(encryption, customerKey);
}

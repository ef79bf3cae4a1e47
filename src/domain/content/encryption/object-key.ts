/** Object keys: generated for a write, stored wrapped, unwrapped for a read (docs/adr/0006-encryption.md). */

import { fail } from '../../../base/errors.ts';
import type { Context } from '../../../context.ts';
import type { Encryption } from '../../../metadata/objects/properties.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import { cipherKeyBytes } from '../../../ports/cryptography.ts';
import type { Recorder } from '../../events/recorder.ts';
import { amendVersion } from '../../objects/amend-version.ts';
import type { Ctx as CommitCtx } from '../../objects/commit-version.ts';
import { assertRemovable, lockTime } from '../../objects/object-lock.ts';
import { fromBase64, toBase64 } from '../digests.ts';
import type { CustomerKey, KeyPlace, ObjectKey } from './content-key.ts';
import { generateKey, type KeyUser, unwrapKey, wrapKey } from './provided-key.ts';
import {
  type ByProvider,
  type ChosenEncryption,
  chooseEncryption,
  type WantedEncryption,
} from './requested-encryption.ts';

type Ctx = Pick<
  Context,
  'caches' | 'clock' | 'hasher' | 'metadata' | 'random' | 'sealer' | 'keys' | 'config' | 'telemetry'
>;

const contextOf = ({ bucket, key }: KeyPlace): string => ['object-key', bucket.id, key].join('\0');

/** The key of a new object or upload; undefined when it is stored unencrypted. */
export async function drawObjectKey(
  ctx: Ctx,
  { bucket, key }: { readonly bucket: BucketRow; readonly key: string },
  { wanted, user }: { readonly wanted: WantedEncryption; readonly user: KeyUser },
): Promise<ObjectKey | undefined> {
  const how = await chooseEncryption(ctx, bucket, wanted);
  return how && draw(ctx, { bucket, key }, { how, user });
}

async function draw(
  ctx: Ctx,
  place: KeyPlace,
  { how, user }: { readonly how: ChosenEncryption; readonly user: KeyUser },
): Promise<ObjectKey> {
  if (how.by === 'provider') return generateKey(ctx, place, { how, user });
  const bytes = ctx.random.bytes(cipherKeyBytes);
  const sealer = how.by === 'customer' ? ctx.sealer.under(how.key.bytes) : ctx.sealer;
  const wrapped = toBase64(await sealer.seal(bytes, contextOf(place)));
  const encryption: Encryption =
    how.by === 'customer' ? { by: 'customer', keyMd5: how.key.md5, wrapped } : { by: 'service', wrapped };
  return { bytes, encryption };
}

/**
 * Opens the key of a content.
 * @throws AccessDenied for a wrong customer key and for a provider's key that the user may not use; or the key provider's error
 */
export async function openObjectKey(
  ctx: Ctx,
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
    return { bytes: await unwrapKey(ctx, place, { kept: encryption, user }), encryption };
  const sealer = customerKey === undefined ? ctx.sealer : ctx.sealer.under(customerKey.bytes);
  const bytes = await sealer.open(fromBase64(encryption.wrapped), contextOf(place));
  if (bytes !== undefined) return { bytes, encryption };
  if (encryption.by === 'customer') throw fail('AccessDenied');
  throw new Error(`the key of ${place.key} in bucket ${place.bucket.id} does not open under the master key`);
}

/** A customer key must be sent for an object that was encrypted with one, and for no other (public API). */
export function assertCustomerKey(
  encryption: Encryption | undefined,
  customerKey: CustomerKey | undefined,
): void {
  const isWanted = encryption?.by === 'customer';
  if (isWanted === (customerKey !== undefined)) return;
  throw fail(
    'InvalidRequest',
    isWanted
      ? 'The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.'
      : 'The encryption parameters are not applicable to this object.',
  );
}

// Wraps an object's key again under another key, without touching the content (public API "UpdateObjectEncryption").

interface Rewrap {
  readonly bucket: BucketRow;
  /** The version that was read. */
  readonly row: ObjectRow;
  /** Absent: the latest version. */
  readonly versionId?: string | undefined;
  readonly how: ByProvider;
  readonly user: KeyUser;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

/**
 * @throws InvalidRequest for a version that is not encrypted, or under a customer's key; AccessDenied for a version that
 * Object Lock holds, and for keys that the user may not use; OperationAborted when another request replaced the version or
 * wrapped its key meanwhile
 */
export async function rewrapKey(ctx: CommitCtx & Ctx, rewrap: Rewrap): Promise<void> {
  const { bucket, row, how, user, ...amendment } = rewrap;
  const { key, encryption } = row;
  if (encryption === undefined || encryption.by === 'customer')
    throw fail(
      'InvalidRequest',
      `The UpdateObjectEncryption operation doesn't support ${encryption === undefined ? 'unencrypted source objects' : 'source objects with the encryption type SSE-C'}. Only source objects encrypted with SSE-S3 or SSE-KMS are supported.`,
    );
  const place = { bucket, key };
  const { bytes } = await openObjectKey(ctx, place, { encryption, user });
  const context = encryption.by === 'provider' ? encryption.context : undefined;
  const wrapped = await wrapKey(ctx, place, { bytes, how: { context, ...how }, user });
  const now = await lockTime(ctx);
  await amendVersion(ctx, {
    bucket,
    key,
    ...amendment,
    amend: (current) => {
      if (current.encryption?.wrapped !== encryption.wrapped) throw fail('OperationAborted');
      assertRemovable(current, { now, bypass: false });
      return { ...current, encryption: wrapped };
    },
  });
}

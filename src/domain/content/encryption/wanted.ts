/** Chooses the encryption of a write: the request's headers take precedence over the bucket's default. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { readDocument } from '../../configurations/documents.ts';
import { bucketEncryption } from '../../configurations/families.ts';
import type { CustomerKey } from './key.ts';

export interface ByProvider {
  readonly by: 'provider';
  /** A key id or alias; absent means the default key. */
  readonly keyId?: string | undefined;
  readonly context?: Readonly<Record<string, string>> | undefined;
  readonly bucketKey?: boolean | undefined;
}

export type ChosenEncryption =
  | { readonly by: 'service' }
  | ByProvider
  | { readonly by: 'customer'; readonly key: CustomerKey };

export type WantedEncryption =
  | ChosenEncryption
  | { readonly by: 'default'; readonly bucketKey?: boolean | undefined };

/** Undefined when neither the request nor the bucket asks for encryption. */
export async function chooseEncryption(
  ctx: Pick<Context, 'caches' | 'metadata'>,
  bucket: BucketRow,
  wanted: WantedEncryption,
): Promise<ChosenEncryption | undefined> {
  const rule = (await readDocument(ctx, bucket, bucketEncryption))?.Rule[0];
  if (wanted.by === 'customer' && rule?.BlockedEncryptionTypes?.EncryptionType.includes('SSE-C'))
    throw fail('AccessDenied', 'This bucket does not take objects that are encrypted with customer keys.');
  if (wanted.by === 'provider') return { ...wanted, bucketKey: wanted.bucketKey ?? rule?.BucketKeyEnabled };
  if (wanted.by !== 'default') return wanted;
  const { SSEAlgorithm, KMSMasterKeyID } = rule?.ApplyServerSideEncryptionByDefault ?? {};
  if (SSEAlgorithm === undefined) return undefined;
  if (SSEAlgorithm === 'AES256') return { by: 'service' };
  return { by: 'provider', keyId: KMSMasterKeyID, bucketKey: wanted.bucketKey ?? rule?.BucketKeyEnabled };
}

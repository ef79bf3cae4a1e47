/** Chooses the encryption of a write: the request's headers take precedence over the bucket's default. */

import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { ConfigurationOf } from '../../protocol/schemas/families.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketEncryption } from '../configurations/families.ts';
import type { CustomerKey } from './extent-keys.ts';

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

export type RequestedEncryption =
  | ChosenEncryption
  | { readonly by: 'default'; readonly bucketKey?: boolean | undefined };

type DefaultEncryption = NonNullable<
  ConfigurationOf<'encryption'>['Rule'][number]['ApplyServerSideEncryptionByDefault']
>;

/** Undefined when neither the request nor the bucket asks for encryption. */
export async function chooseEncryption(
  ctx: Pick<Context, 'caches' | 'metadata'>,
  bucket: BucketRow,
  requested: RequestedEncryption,
): Promise<ChosenEncryption | undefined> {
  const rule = (await readDocument(ctx, bucket, bucketEncryption))?.Rule[0];
  if (requested.by === 'customer' && rule?.BlockedEncryptionTypes?.EncryptionType.includes('SSE-C'))
    throw fail('AccessDenied', 'This bucket does not take objects that are encrypted with customer keys.');
  if (requested.by === 'provider')
    return { ...requested, bucketKey: requested.bucketKey ?? rule?.BucketKeyEnabled };
  if (requested.by !== 'default') return requested;
  const byDefault = rule?.ApplyServerSideEncryptionByDefault;
  return byDefault && readDefault(byDefault, requested.bucketKey ?? rule.BucketKeyEnabled);
}

/** The compiler asks for a case where the schema takes a further algorithm. */
function readDefault(
  { SSEAlgorithm, KMSMasterKeyID }: DefaultEncryption,
  bucketKey: boolean | undefined,
): ChosenEncryption {
  switch (SSEAlgorithm) {
    case 'AES256':
      return { by: 'service' };
    case 'aws:kms':
      return { by: 'provider', keyId: KMSMasterKeyID, bucketKey };
    case 'aws:kms:dsse':
      // PutBucketEncryption refuses it, so no stored document says so.
      throw fail('NotImplemented', 'Encryption in two layers (aws:kms:dsse) is not implemented.');
  }
}

// The key of the key provider for a request that names none (spec, "Operator JSON API"; docs/gaps.md, E2), and how refusals name it.

type Ctx = Pick<Context, 'config'>;

/** SVC_KMS_DEFAULT_KEY_ID, then the name of the bucket. */
export const keyIdOrDefault = ({ config }: Ctx, bucket: string, keyId: string | undefined): string =>
  keyId ?? config.SVC_KMS_DEFAULT_KEY_ID ?? bucket;

const refusals: Readonly<Record<string, (key: string) => string>> = {
  'KMS.NotFoundException': (key) => `The key provider has no ${key}.`,
  KeyDenied: (key) => `The key provider does not let this service use the ${key}.`,
};

/** A refusal of the key provider whose text names the key that was asked for, because a caller that names none cannot know it. */
export function withKeyId(
  { config }: Ctx,
  cause: unknown,
  asked: {
    readonly bucket: string;
    readonly keyId: string | undefined;
    /** What the caller may name a key with. */
    readonly parameter: string;
    /** Only operators see the value of SVC_KMS_DEFAULT_KEY_ID, and which field of their JSON is wrong. */
    readonly toOperator: boolean;
  },
): unknown {
  const refusal = cause instanceof Refusal ? refusals[cause.code] : undefined;
  if (!(cause instanceof Refusal) || refusal === undefined) return cause;
  const { bucket, keyId, parameter, toOperator } = asked;
  const { SVC_KMS_DEFAULT_KEY_ID: byDefault } = config;
  const message = (key: string, why = ''): unknown =>
    fail(cause.code, {
      ...cause.details,
      message: refusal(key) + why,
      ...(toOperator ? { field: parameter } : {}),
    });
  if (keyId !== undefined) return message(`key "${keyId}"`);
  const none = ` The request has no ${parameter}`;
  if (byDefault === undefined)
    return message(
      `key "${bucket}"`,
      `${none} and SVC_KMS_DEFAULT_KEY_ID is not set, so the id is the name of the bucket.`,
    );
  return toOperator
    ? message(`key "${byDefault}"`, `${none}; the id is the value of SVC_KMS_DEFAULT_KEY_ID.`)
    : message('default key', `${none}; an operator must correct SVC_KMS_DEFAULT_KEY_ID.`);
}

/**
 * Keys of a service that speaks the AWS KMS API (https://docs.aws.amazon.com/kms/latest/APIReference/). A key's id is its ARN. The context
 * of a wrapped key is its encryption context there, so the service binds it and shows it in its own logs.
 */
import { cipherKeyBytes } from '../../../ports/crypto/cipher.ts';
import { KeyFailure, type KeyProvider, type WrappedKey } from '../../../ports/crypto/key-provider.ts';
import { describeKey, type KeyAccountsOptions } from '../key-accounts.ts';
import type { KmsAnswer, KmsCall } from './call.ts';
import type { KeyArns } from './key-arns.ts';

export interface CloudKmsOptions {
  readonly call: KmsCall;
  readonly arns: KeyArns;
  readonly users: Omit<KeyAccountsOptions, 'defaultKeyId'>;
  /** The id, alias or ARN of the key of requests that name none. */
  readonly defaultKey: string | undefined;
  close(): Promise<void>;
}

/** The key that a probe asks about where there is no default key; it need not exist. */
const probedName = 'alias/sluice';

export function cloudKms({ call, arns, users, defaultKey, close }: CloudKmsOptions): KeyProvider {
  const defaultArn = async (): Promise<string | undefined> =>
    defaultKey === undefined ? undefined : arns.find(defaultKey).catch(() => undefined);

  return {
    isDistant: true,
    async describe(name, cause) {
      const arn = await arns.find(name, cause);
      // Settings may name keys without the beginning of their ARN.
      const bare = arn.slice(arn.indexOf('/') + 1);
      const isNamed = users.accounts?.has(arn) === true;
      const named = isNamed ? undefined : users.accounts?.get(bare);
      const accounts = named === undefined ? users.accounts : new Map([[arn, named]]);
      const defaultKeyId = isNamed || named !== undefined ? undefined : await defaultArn();
      return describeKey(arn, { ...users, ...(accounts === undefined ? {} : { accounts }), defaultKeyId });
    },
    async generate(keyId, context, cause) {
      const asked = { KeyId: keyId, KeySpec: 'AES_256', EncryptionContext: context };
      const answer = await call('GenerateDataKey', asked, cause);
      return { ...readWrapped(answer), key: readKey(answer) };
    },
    async wrap(keyId, key, context, cause) {
      const Plaintext = Buffer.from(key).toString('base64');
      const asked = { KeyId: keyId, Plaintext, EncryptionContext: context };
      return readWrapped(await call('Encrypt', asked, cause));
    },
    async unwrap({ keyId, wrapped }, context, cause) {
      const asked = { CiphertextBlob: encode(wrapped), KeyId: keyId, EncryptionContext: context };
      return readKey(await call('Decrypt', asked, cause));
    },
    async rewrap({ keyId, wrapped }, context, cause) {
      const asked = {
        CiphertextBlob: encode(wrapped),
        SourceKeyId: keyId,
        SourceEncryptionContext: context,
        DestinationKeyId: keyId,
        DestinationEncryptionContext: context,
      };
      return readWrapped(await call('ReEncrypt', asked, cause));
    },
    async probe() {
      await call('DescribeKey', { KeyId: defaultKey ?? probedName }).catch((cause: unknown) => {
        if (!(cause instanceof KeyFailure) || cause.reason === 'unavailable') throw cause;
      });
    },
    close,
  };
}

const encode = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

function readBytes(text: unknown): Uint8Array {
  if (typeof text === 'string' && text !== '') return new Uint8Array(Buffer.from(text, 'base64'));
  throw new KeyFailure('unavailable', 'the key-management service answered without a key');
}

function readWrapped({ KeyId, CiphertextBlob }: KmsAnswer): WrappedKey {
  if (typeof KeyId !== 'string')
    throw new KeyFailure('unavailable', 'the key-management service answered without the id of the key');
  return { keyId: KeyId, wrapped: readBytes(CiphertextBlob) };
}

function readKey({ Plaintext }: KmsAnswer): Uint8Array {
  const key = readBytes(Plaintext);
  if (key.length === cipherKeyBytes) return key;
  throw new KeyFailure('tampered', `what was decrypted has ${key.length} bytes, not ${cipherKeyBytes}`);
}

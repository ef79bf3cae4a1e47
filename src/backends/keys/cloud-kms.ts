/**
 * Keys of a service that speaks the AWS KMS API (https://docs.aws.amazon.com/kms/latest/APIReference/). A key's id is its ARN. The context
 * of a wrapped key is its encryption context there, so the service binds it and shows it in its own logs.
 */
import type { Clock } from '../../ports/clock.ts';
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import {
  isPassing,
  type KeyDescription,
  KeyFailure,
  type KeyFailureReason,
  type WrappedKey,
} from '../../ports/key-provider.ts';
import type { Cause } from '../../ports/trace.ts';
import type { KeyArns, KmsAnswer, KmsCall } from './call.ts';
import { describeKey, type KeyAccountsOptions } from './key-requests.ts';
import type { RemoteProvider } from './steady-provider.ts';

export interface CloudKmsOptions {
  readonly call: KmsCall;
  readonly arns: KeyArns;
  readonly users: Omit<KeyAccountsOptions, 'defaultKeyId'>;
  /** The id, alias or ARN of the key of requests that name none. */
  readonly defaultKey: string | undefined;
  readonly clock: Pick<Clock, 'elapsed'>;
  close(): Promise<void>;
}

/** How long a default key that does not exist counts as absent. */
const absentMs = 10_000;

/** The key that a probe asks about where there is no default key; it need not exist. */
const probedName = 'alias/sluice';

export function cloudKms({ call, arns, users, defaultKey, clock, close }: CloudKmsOptions): RemoteProvider {
  const absentUntil = { elapsed: Number.NEGATIVE_INFINITY };
  /** Undefined where there is no such key; that is remembered, because every use of a key without accounts asks for it. */
  const findDefault = async (cause: Cause | undefined): Promise<string | undefined> => {
    if (defaultKey === undefined || clock.elapsed() < absentUntil.elapsed) return undefined;
    try {
      return await arns.find(defaultKey, cause);
    } catch (error) {
      if (isPassing(error)) throw error;
      absentUntil.elapsed = clock.elapsed() + absentMs;
      return undefined;
    }
  };
  /** Settings may name keys without the beginning of their ARN. */
  const namedUsers = (arn: string): readonly string[] | undefined =>
    users.accounts?.get(arn) ?? users.accounts?.get(arn.slice(arn.indexOf('/') + 1));
  const toDescription = (arn: string, defaultKeyId: string | undefined): KeyDescription => {
    const named = namedUsers(arn);
    const accounts = named === undefined ? undefined : new Map([[arn, named]]);
    return describeKey(arn, { ...users, ...(accounts === undefined ? {} : { accounts }), defaultKeyId });
  };

  return {
    isDistant: true,
    describeKnown(name, age) {
      const arn = arns.known(name, age);
      if (arn === undefined) return undefined;
      const needsDefault = defaultKey !== undefined && namedUsers(arn) === undefined;
      if (!needsDefault || clock.elapsed() < absentUntil.elapsed) return toDescription(arn, undefined);
      const defaultArn = arns.known(defaultKey, age);
      // A default that was absent when it was asked for last is absent, as far as is known.
      const isAbsent = age === 'stale' && absentUntil.elapsed > Number.NEGATIVE_INFINITY;
      return defaultArn === undefined && !isAbsent ? undefined : toDescription(arn, defaultArn);
    },
    async describe(name, { cause } = {}) {
      const arn = await arns.find(name, cause);
      return toDescription(arn, namedUsers(arn) === undefined ? await findDefault(cause) : undefined);
    },
    async generate(keyId, context, { cause } = {}) {
      const asked = { KeyId: keyId, KeySpec: 'AES_256', EncryptionContext: context };
      const answer = await call('GenerateDataKey', asked, cause);
      return { ...readWrapped(answer), key: readKey(answer, 'unavailable') };
    },
    async wrap(keyId, key, context, { cause } = {}) {
      const Plaintext = Buffer.from(key).toString('base64');
      const asked = { KeyId: keyId, Plaintext, EncryptionContext: context };
      return readWrapped(await call('Encrypt', asked, cause));
    },
    async unwrap({ keyId, wrapped }, context, { cause } = {}) {
      const asked = { CiphertextBlob: encode(wrapped), KeyId: keyId, EncryptionContext: context };
      return readKey(await call('Decrypt', asked, cause), 'tampered');
    },
    async rewrap({ keyId, wrapped }, context, { cause } = {}) {
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
        if (!(cause instanceof KeyFailure) || isPassing(cause)) throw cause;
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

function readKey({ Plaintext }: KmsAnswer, otherwise: KeyFailureReason): Uint8Array {
  const key = readBytes(Plaintext);
  if (key.length === cipherKeyBytes) return key;
  throw new KeyFailure(otherwise, `the key of the answer has ${key.length} bytes, not ${cipherKeyBytes}`);
}

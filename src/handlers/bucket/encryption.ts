/** GetBucketEncryption, PutBucketEncryption, DeleteBucketEncryption. */
import { assertAccountMayUse } from '../../auth/session/key-user.ts';
import { fail, invalidArgument, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { bucketEncryption } from '../../domain/configurations/families.ts';
import { assertProvider } from '../../domain/content/named-keys.ts';
import { findKey } from '../../domain/content/provider-key.ts';
import {
  type ServerSideEncryptionRule,
  serverSideEncryptionConfiguration,
} from '../../protocol/schemas/bucket.ts';
import { type Configuring, document } from '../common/document.ts';

function checkRule(ctx: Context, { ApplyServerSideEncryptionByDefault }: ServerSideEncryptionRule) {
  const { SSEAlgorithm, KMSMasterKeyID } = ApplyServerSideEncryptionByDefault ?? {};
  if (SSEAlgorithm === 'aws:kms:dsse')
    throw fail('NotImplemented', 'Encryption in two layers (aws:kms:dsse) is not implemented.');
  if (SSEAlgorithm !== 'aws:kms' && KMSMasterKeyID !== undefined)
    throw invalidArgument(
      'KMSMasterKeyID',
      KMSMasterKeyID,
      'a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse',
    );
  if (KMSMasterKeyID === '')
    throw invalidArgument('KMSMasterKeyID', '', 'The KMSMasterKeyID must name a key');
  if (SSEAlgorithm === 'aws:kms') assertProvider(ctx, { name: 'SSEAlgorithm', value: SSEAlgorithm });
}

/** Refuses a default key that the bucket's account may not use: no write could succeed, or it would use another account's key. */
async function checkKey(
  ctx: Context,
  request: Configuring,
  { ApplyServerSideEncryptionByDefault }: ServerSideEncryptionRule,
): Promise<void> {
  const name = ApplyServerSideEncryptionByDefault?.KMSMasterKeyID;
  if (name === undefined || ctx.keys === undefined) return;
  const account = request.identity?.owner ?? '';
  const key = await findKey(ctx, { name, account }).catch((cause: unknown) => {
    // A key that is not to be had now may be there when an object is written.
    if (cause instanceof Refusal && cause.code !== 'SlowDown') return undefined;
    throw cause;
  });
  if (key !== undefined) assertAccountMayUse(ctx, request, { ...key, named: name });
}

const configuration = document({
  family: bucketEncryption,
  schema: serverSideEncryptionConfiguration,
  unset: 'ServerSideEncryptionConfigurationNotFoundError',
  validate: async (ctx, request, value) => {
    for (const [index, rule] of value.Rule.entries()) {
      const path = `Rule[${index}].ApplyServerSideEncryptionByDefault`;
      await request.checks.at({ path, right: 'AES256, or aws:kms where a key provider is configured' }, () =>
        checkRule(ctx, rule),
      );
      await request.checks.at(
        { path: `${path}.KMSMasterKeyID`, right: 'a key that the account of the bucket may use' },
        () => checkKey(ctx, request, rule),
      );
    }
    return value;
  },
});

export const encryption = configuration.configuration;
export const GetBucketEncryption = configuration.get;
export const PutBucketEncryption = configuration.put;
export const DeleteBucketEncryption = configuration.remove;

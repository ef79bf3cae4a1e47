/** GetBucketEncryption, PutBucketEncryption, DeleteBucketEncryption (spec "Encryption"). */
import { bucketEncryption } from '../../domain/families.ts';
import { fail } from '../../errors/refusal.ts';
import {
  type ServerSideEncryptionRule,
  serverSideEncryptionConfiguration,
} from '../../protocol/schemas/encryption.ts';
import { document } from '../document.ts';

function checkRule({ ApplyServerSideEncryptionByDefault }: ServerSideEncryptionRule) {
  const { SSEAlgorithm, KMSMasterKeyID } = ApplyServerSideEncryptionByDefault ?? {};
  if (SSEAlgorithm === 'aws:kms:dsse')
    throw fail('NotImplemented', 'Encryption in two layers (aws:kms:dsse) is not implemented.');
  if (SSEAlgorithm !== 'aws:kms' && KMSMasterKeyID !== undefined)
    throw fail('InvalidArgument', {
      message:
        'a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse',
      elements: { ArgumentName: 'KMSMasterKeyID', ArgumentValue: KMSMasterKeyID },
    });
  if (KMSMasterKeyID === '')
    throw fail('InvalidArgument', {
      message: 'The KMSMasterKeyID must name a key',
      elements: { ArgumentName: 'KMSMasterKeyID', ArgumentValue: '' },
    });
}

const documentOf = document({
  family: bucketEncryption,
  root: 'ServerSideEncryptionConfiguration',
  schema: serverSideEncryptionConfiguration,
  unset: 'ServerSideEncryptionConfigurationNotFoundError',
  validate: (_ctx, _call, value) => {
    for (const rule of value.Rule) checkRule(rule);
    return value;
  },
});

export const GetBucketEncryption = documentOf.get;
export const PutBucketEncryption = documentOf.put;
export const DeleteBucketEncryption = documentOf.remove;

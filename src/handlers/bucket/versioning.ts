/** GetBucketVersioning and PutBucketVersioning (spec "Versioning"). */
import { setVersioning } from '../../domain/buckets.ts';
import { fail } from '../../errors/refusal.ts';
import { readXml } from '../../protocol/codec.ts';
import { versioningConfiguration } from '../../protocol/schemas/bucket.ts';
import type { HandlerOf } from '../call.ts';
import { emptyReply, xmlReply } from '../xml-reply.ts';

export const GetBucketVersioning: HandlerOf<'GetBucketVersioning'> = async (_ctx, { bucket }) =>
  xmlReply(
    versioningConfiguration,
    'VersioningConfiguration',
    bucket.versioning === '' ? {} : { Status: bucket.versioning },
  );

export const PutBucketVersioning: HandlerOf<'PutBucketVersioning'> = async (
  ctx,
  { bucket, body, record },
) => {
  const { Status, MfaDelete } = readXml(versioningConfiguration, 'VersioningConfiguration', body, {
    maxBytes: 64 * 1024,
  });
  if (MfaDelete === 'Enabled') throw fail('NotImplemented', 'MFA delete is not implemented.');
  if (Status === undefined)
    throw fail('IllegalVersioningConfigurationException', 'Status must be Enabled or Suspended.');
  await setVersioning(ctx, bucket.name, { versioning: Status, record });
  return emptyReply(200);
};

/** GetBucketVersioning and PutBucketVersioning. */
import { setVersioning, takesMfa } from '../../../domain/buckets/bucket-versioning.ts';
import { fail } from '../../../errors/refusal.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import {
  type VersioningConfiguration,
  versioningConfiguration,
} from '../../../protocol/schemas/bucket/bucket.ts';
import { hasShownMfa } from '../../common/mfa.ts';
import { emptyReply, xmlReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';

export const GetBucketVersioning: HandlerOf<'GetBucketVersioning'> = async (_ctx, { bucket }) =>
  xmlReply(versioningConfiguration, 'VersioningConfiguration', toVersioning(bucket));

/** Settings that were never set are left out. */
const toVersioning = ({ versioning, mfaDelete }: BucketRow): VersioningConfiguration => ({
  ...(versioning === '' ? {} : { Status: versioning }),
  ...(mfaDelete === undefined ? {} : { MfaDelete: mfaDelete ? 'Enabled' : 'Disabled' }),
});

export const PutBucketVersioning: HandlerOf<'PutBucketVersioning'> = async (ctx, request) => {
  const { bucket, body, record } = request;
  const { Status, MfaDelete } = readXml(versioningConfiguration, 'VersioningConfiguration', body, {
    maxBytes: bodyMaxDefault,
  });
  if (Status === undefined)
    throw fail('IllegalVersioningConfigurationException', 'Status must be Enabled or Suspended.');
  const mfaDelete = MfaDelete === undefined ? undefined : MfaDelete === 'Enabled';
  const mfa = takesMfa(bucket, mfaDelete) && (await hasShownMfa(ctx, request));
  await setVersioning(ctx, bucket, { versioning: Status, mfaDelete, mfa, record });
  return emptyReply(200);
};

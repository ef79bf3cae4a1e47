/** GetBucketVersioning and PutBucketVersioning. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { assertVersioningAllowed, setVersioning, takesMfa } from '../../domain/buckets/bucket.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import { type VersioningConfiguration, versioningConfiguration } from '../../protocol/schemas/bucket.ts';
import { hasVerifiedMfa } from '../../request/body.ts';
import {
  type Configuration,
  type Configuring,
  type Prepared,
  storeConfiguration,
} from '../common/document.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';

export const GetBucketVersioning: HandlerOf<'GetBucketVersioning'> = async (_ctx, { bucket }) =>
  xmlReply(versioningConfiguration, 'VersioningConfiguration', toVersioning(bucket));

/** Settings that were never set are left out. */
const toVersioning = ({ versioning, mfaDelete }: BucketRow): VersioningConfiguration => ({
  ...(versioning === '' ? {} : { Status: versioning }),
  ...(mfaDelete === undefined ? {} : { MfaDelete: mfaDelete ? 'Enabled' : 'Disabled' }),
});

export const PutBucketVersioning: HandlerOf<'PutBucketVersioning'> = async (ctx, request) => {
  const value = readXml(versioningConfiguration, 'VersioningConfiguration', request.body, {
    maxBytes: bodyMaxDefault,
  });
  await storeConfiguration(ctx, request, { prepare, input: { value } });
  return emptyReply(200);
};

async function prepare(
  ctx: Context,
  request: Configuring,
  { value: { Status, MfaDelete } }: { readonly value: VersioningConfiguration },
): Promise<Prepared> {
  const { bucket, record, checks } = request;
  const versioning = await checks.at({ path: 'Status', right: 'Enabled or Suspended' }, () => {
    if (Status !== undefined) return Status;
    throw fail('IllegalVersioningConfigurationException', 'Status must be Enabled or Suspended.');
  });
  const mfaDelete = MfaDelete === undefined ? undefined : MfaDelete === 'Enabled';
  const mfa = takesMfa(bucket, mfaDelete) && (await hasVerifiedMfa(ctx, request));
  const change = { versioning: versioning ?? 'Enabled', mfaDelete, mfa, record };
  await checks.at({ path: versioning === undefined ? 'MfaDelete' : '' }, () =>
    assertVersioningAllowed(bucket, change),
  );
  return { commit: () => setVersioning(ctx, bucket, change) };
}

/** MFA delete is shown, and can only be changed with a code of the account's root, which an operator does not have. */
export const versioning: Configuration<VersioningConfiguration, 'versioning'> = {
  family: 'versioning',
  unset: {},
  read: (_ctx, bucket) => {
    const visible = toVersioning(bucket);
    return Object.keys(visible).length === 0 ? undefined : visible;
  },
  prepare,
};

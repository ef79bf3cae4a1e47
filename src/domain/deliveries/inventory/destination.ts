/** Where an inventory is written: the bucket as it is now, and the keys (public API "Locating your inventory list"). */
import type { Context } from '../../../context.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import type { Inventory } from '../../configurations/inventory.ts';
import type { WantedEncryption } from '../../content/encryption/wanted.ts';
import { isKeyTooLong, type MayWrite, services } from '../service-write.ts';
import type { InventoryRun } from './runs.ts';

const namedIn = ({ Destination }: Inventory): string => {
  const { Bucket } = Destination.S3BucketDestination;
  return Bucket.slice(Bucket.lastIndexOf(':') + 1);
};

/** Why an inventory cannot be written now. */
export type Refused = 'no-bucket' | 'other-owner' | 'other-region' | 'key-too-long' | 'denied';

export async function openDestination(
  ctx: Pick<Context, 'metadata'> & { readonly mayWrite: MayWrite },
  source: BucketRow,
  run: InventoryRun,
): Promise<BucketRow | Refused> {
  const { inventory } = run;
  const bucket = (await findBucket(ctx.metadata, namedIn(inventory)))?.row;
  if (bucket === undefined) return 'no-bucket';
  if (bucket.owner !== source.owner) return 'other-owner';
  if (bucket.region !== source.region) return 'other-region';
  const { manifest, dataFile } = inventoryKeys(run);
  if ([manifest, dataFile(0)].some(isKeyTooLong)) return 'key-too-long';
  const mayWrite = await ctx.mayWrite({
    service: services.inventory,
    bucket,
    key: manifest,
    source: { bucket: source.name, account: source.owner },
  });
  return mayWrite ? bucket : 'denied';
}

/** Absent encryption means the default of the destination. */
export function wantedEncryption({ Destination }: Inventory): WantedEncryption {
  const { Encryption = {} } = Destination.S3BucketDestination;
  if (Encryption['SSE-KMS'] !== undefined) {
    const { KeyId } = Encryption['SSE-KMS'];
    return { by: 'provider', keyId: KeyId };
  }
  return Encryption['SSE-S3'] === undefined ? { by: 'default' } : { by: 'service' };
}

export function inventoryKeys({ bucket, inventory, startedAt, fileId }: InventoryRun) {
  const { Prefix = '', Format } = inventory.Destination.S3BucketDestination;
  const root = `${Prefix === '' ? '' : `${Prefix.replace(/\/$/, '')}/`}${bucket}/${inventory.Id}`;
  const [date = '', time = ''] = new Date(startedAt).toISOString().split('T');
  const minute = time.slice(0, 5).replace(':', '-');
  const suffix = Format === 'Parquet' ? 'parquet' : 'csv.gz';
  return {
    manifest: `${root}/${date}T${minute}Z/manifest.json`,
    checksum: `${root}/${date}T${minute}Z/manifest.checksum`,
    symlink: `${root}/hive/dt=${date}-${minute}/symlink.txt`,
    dataFile: (n: number): string => `${root}/data/${fileId}-${String(n).padStart(5, '0')}.${suffix}`,
  };
}

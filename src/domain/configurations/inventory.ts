/** The inventory configurations of a bucket: one document holds all of them, each with an id. */
import { family } from './documents.ts';

/** The fields of each version in an inventory, beside bucket and key. */
export type InventoryField =
  | 'Size'
  | 'LastModifiedDate'
  | 'StorageClass'
  | 'ETag'
  | 'IsMultipartUploaded'
  | 'ReplicationStatus'
  | 'EncryptionStatus'
  | 'ObjectLockRetainUntilDate'
  | 'ObjectLockMode'
  | 'ObjectLockLegalHoldStatus'
  | 'IntelligentTieringAccessTier'
  | 'BucketKeyStatus'
  | 'ChecksumAlgorithm'
  | 'ObjectAccessControlList'
  | 'ObjectOwner'
  | 'LifecycleExpirationDate';

export interface Inventory {
  readonly Id: string;
  readonly IsEnabled: boolean;
  readonly Filter?: { readonly Prefix: string };
  readonly Destination: {
    readonly S3BucketDestination: {
      readonly AccountId?: string;
      /** An ARN. */
      readonly Bucket: string;
      readonly Format: 'CSV' | 'ORC' | 'Parquet';
      readonly Prefix?: string;
      readonly Encryption?: { readonly 'SSE-S3'?: object; readonly 'SSE-KMS'?: { readonly KeyId: string } };
    };
  };
  readonly Schedule: { readonly Frequency: 'Daily' | 'Weekly' };
  readonly IncludedObjectVersions: 'All' | 'Current';
  readonly OptionalFields?: readonly InventoryField[];
}

/** Ordered by id; never an empty list. */
export const bucketInventories = family<readonly Inventory[]>('inventory');

export const findInventory = (
  inventories: readonly Inventory[] | undefined,
  id: string,
): Inventory | undefined => inventories?.find(({ Id }) => Id === id);

/** The list with one added or replaced. */
export const withInventory = (
  inventories: readonly Inventory[] | undefined,
  inventory: Inventory,
): readonly Inventory[] =>
  [...(inventories ?? []).filter(({ Id }) => Id !== inventory.Id), inventory].sort((a, b) =>
    a.Id < b.Id ? -1 : 1,
  );

/** The list without one; undefined when it was the last. */
export function withoutInventory(
  inventories: readonly Inventory[] | undefined,
  id: string,
): readonly Inventory[] | undefined {
  const others = (inventories ?? []).filter(({ Id }) => Id !== id);
  return others.length === 0 ? undefined : others;
}

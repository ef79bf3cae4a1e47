/** The records of access points: named entrances to a bucket, each with a policy of its own. */
import { table } from '../../ports/metadata-store.ts';

export interface AccessPointBlock {
  readonly BlockPublicAcls: boolean;
  readonly IgnorePublicAcls: boolean;
  readonly BlockPublicPolicy: boolean;
  readonly RestrictPublicBuckets: boolean;
}

export interface AccessPointRow {
  readonly account: string;
  readonly name: string;
  readonly bucket: string;
  /** Names one bucket: a bucket that is created later under the same name has another id. */
  readonly bucketId: string;
  readonly bucketOwner: string;
  /** `<name>-<34 characters>-s3alias`, which clients may use in place of a bucket's name. */
  readonly alias: string;
  readonly created: number;
  readonly region: string;
  readonly block: AccessPointBlock;
  /** The text of the policy as the client sent it. The id never refers to another text. */
  readonly policy?: { readonly id: string; readonly text: string };
}
export const accessPoints = table<AccessPointRow>()({
  name: 'access_points',
  kind: 'conditional',
  partition: ['account'],
  sort: ['name'],
  columns: {
    account: 'text',
    name: 'text',
    bucket: 'text',
    bucketId: 'text',
    bucketOwner: 'text',
    alias: 'text',
    created: 'int',
    region: 'text',
    block: 'json',
    policy: 'json',
  },
});

/**
 * The names of an access point in hosts and paths: its alias, and `<name>-<account>`, which SDKs derive from its ARN. Two access points
 * could have the latter in common: the first claim wins.
 */
export interface AccessPointAliasRow {
  readonly alias: string;
  readonly account: string;
  readonly name: string;
}
export const accessPointAliases = table<AccessPointAliasRow>()({
  name: 'access_point_aliases',
  kind: 'conditional',
  partition: ['alias'],
  sort: [],
  columns: { alias: 'text', account: 'text', name: 'text' },
});

/**
 * - `current`: a live head, by the day on which it was written.
 * - `marker`: a delete marker at the head, by the day on which it was written.
 * - `noncurrent`: a version in the history, by the day on which a newer version replaced it.
 * - `restored`: a version with a restored copy, by the day on which the copy expires.
 * - `upload`: an open multipart upload, by the day on which it was initiated.
 */

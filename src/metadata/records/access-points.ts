/** The records of access points: names under which an account reaches a bucket with a policy of its own. */
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
  /** A bucket that was created again under the name is not the one that this leads to. */
  readonly bucketId: string;
  readonly bucketOwner: string;
  /** `<name>-<34 characters>-s3alias`: what clients may use in the place of a bucket's name. */
  readonly alias: string;
  readonly created: number;
  readonly region: string;
  readonly block: AccessPointBlock;
  /** As it was put, with an id that never means another text. */
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
 * What stands in a host or a path for an access point: its alias, and `<name>-<account>`, which SDKs make of its ARN and
 * which two could have in common. The first claim stays.
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

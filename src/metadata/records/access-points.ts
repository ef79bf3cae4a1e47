/** The records of access points: named entrances to a bucket, each with a policy of its own. */
import { int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

export interface AccessPointBlock {
  readonly BlockPublicAcls: boolean;
  readonly IgnorePublicAcls: boolean;
  readonly BlockPublicPolicy: boolean;
  readonly RestrictPublicBuckets: boolean;
}

export const accessPoints = table({
  name: 'access_points',
  kind: 'conditional',
  isExported: true,
  partition: ['account'],
  sort: ['name'],
  columns: {
    account: text(),
    name: text(),
    bucket: text(),
    /** Names one bucket: a bucket that is created later under the same name has another id. */
    bucketId: text(),
    bucketOwner: text(),
    /** `<name>-<34 characters>-s3alias`, which clients may use in place of a bucket's name. */
    alias: text(),
    created: int(),
    region: text(),
    block: json<AccessPointBlock>(),
    /** The text of the policy as the client sent it. The id never refers to another text. */
    policy: optional(json<{ readonly id: string; readonly text: string }>()),
  },
});
export interface AccessPointRow extends RowOf<typeof accessPoints> {}

/**
 * The names of an access point in hosts and paths: its alias, and `<name>-<account>`, which SDKs derive from its ARN. Two access points
 * could have the latter in common: the first claim wins.
 */
export const accessPointAliases = table({
  name: 'access_point_aliases',
  kind: 'conditional',
  isExported: true,
  partition: ['alias'],
  sort: [],
  columns: { alias: text(), account: text(), name: text() },
});
export interface AccessPointAliasRow extends RowOf<typeof accessPointAliases> {}

/** The policy and public access block of an access point, by which a request through it is judged in addition to the bucket's. */

import { BoundedCache } from '../../base/bounded-cache.ts';
import type { Caches } from '../../base/caches.ts';
import { accessPointArn } from '../../domain/access/access-points.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';
import type { AccessPointSide } from '../policy/decision.ts';
import { parsePolicy } from '../policy/document/document.ts';
import { type Policy, policyBytes } from '../policy/evaluate.ts';

/** Compiled policies by the id of their text. An id never refers to another text. */
class AccessPointPolicies extends BoundedCache<Policy> {
  constructor() {
    super({
      name: 'access-point-policies',
      entriesMax: 1_024,
      bytes: { max: 8 * 1024 * 1024, sizeOf: policyBytes },
    });
  }
}

const compilePolicy = (caches: Caches, { policy }: AccessPointRow): Policy | undefined =>
  policy &&
  caches.of(AccessPointPolicies).find(policy.id, () => ({
    name: 'access point policy',
    document: parsePolicy(policy.text, { kind: 'access-point', isStored: true }),
  }));

/** @param key '' for the access point itself */
export const accessPointResource = (row: AccessPointRow, key: string): string =>
  key === '' ? accessPointArn(row) : `${accessPointArn(row)}/object/${key}`;

/** @param key '' for the access point itself */
export function accessPointSide(caches: Caches, row: AccessPointRow, key: string): AccessPointSide {
  return {
    owner: row.account,
    resource: accessPointResource(row, key),
    policy: compilePolicy(caches, row),
    publicAccess: {
      ignorePublicAcls: row.block.IgnorePublicAcls,
      restrictPublicBuckets: row.block.RestrictPublicBuckets,
    },
  };
}

/** No access point is bound to a private network. */
export const networkOrigin = 'Internet';

/** By condition key. */
export const accessPointFacts = (
  row: Pick<AccessPointRow, 'account' | 'name' | 'region'>,
): ReadonlyMap<string, string> =>
  new Map([
    ['s3:DataAccessPointArn', accessPointArn(row)],
    ['s3:DataAccessPointAccount', row.account],
    ['s3:AccessPointNetworkOrigin', networkOrigin],
  ]);

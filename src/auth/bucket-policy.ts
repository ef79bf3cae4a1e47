/** The policy document of a bucket: stored as it was sent, compiled once for each text. */

import { BoundedCache, type Caches } from '../base/bounded-cache.ts';
import { fail } from '../base/errors.ts';
import { accessPointArn } from '../domain/access/access-points.ts';
import type { Family } from '../domain/configurations/documents.ts';
import { findNamed } from '../domain/iam/entities.ts';
import type { AccessPointRow } from '../metadata/records/access-points.ts';
import type { Credentials } from '../ports/credentials.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import { userArn } from '../protocol/arns.ts';
import type { AccessPointSide } from './policy/decision.ts';
import { type PolicyDocument, parsePolicy } from './policy/document.ts';
import { type Policy, policyBytes } from './policy/evaluate.ts';
import { callerOf } from './principal.ts';

interface BucketPolicy extends Policy {
  /** The text as the client sent it. */
  readonly text: string;
}

/** In a trace. */
export const bucketPolicyName = 'bucket policy';

export const bucketPolicy: Family<BucketPolicy> = {
  name: 'policy',
  parse: (text) => ({
    name: bucketPolicyName,
    text,
    document: parsePolicy(text, { kind: 'bucket', isStored: true }),
  }),
  retainedBytes: (policy) => policyBytes(policy) + 2 * policy.text.length,
};

// Access keys and user names that a policy gives as a Principal. They look like account ids, so such a statement would allow no
// caller, or an account that is created later. The public service refuses them too.

interface Ctx {
  readonly metadata: MetadataStore;
  readonly credentials: Credentials;
}

/** The shape of IAM's access keys and unique ids. */
const idPattern = /^(?:AKIA|ASIA|AIDA|AROA|AGPA|ANPA)[A-Z0-9]{16}$/;
/** The largest number of names to look up, because each costs reads. Further names count as accounts. */
const lookedUpMax = 100;

const refused = (name: string, is: string, arn: string) =>
  fail(
    'MalformedPolicy',
    `Invalid principal in policy: "${name}" is ${is}, and not an account. Write the ARN of the user or role, such as {"AWS": "${arn}"}.`,
  );

/** @throws MalformedPolicy for a name that is an access key, or a user of `account`, and not a known account */
export async function refuseBarePrincipals(
  { metadata, credentials }: Ctx,
  account: string,
  document: PolicyDocument,
): Promise<void> {
  const names = new Set(document.statements.flatMap(({ bareNames }) => bareNames));
  let lookedUp = 0;
  for (const name of names) {
    if ((await credentials.account({ owner: name })) !== undefined) continue;
    if (idPattern.test(name))
      throw refused(name, 'an access key or a unique id', userArn(account, { name: 'alice' }));
    lookedUp += 1;
    if (lookedUp > lookedUpMax) return;
    // Access keys of other accounts are not reported, because that would reveal that they exist.
    const key = await credentials.find(name);
    if (key?.owner === account) throw refused(name, 'an access key', callerOf(key).arn);
    const user = await findNamed({ metadata }, account, { kind: 'user', name });
    if (user !== undefined) throw refused(name, 'the name of a user', userArn(account, user));
  }
}

// The policy and public access block of an access point, by which a request through it is judged in addition to the bucket's.

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

/** The caller as policies see it. */
import { memoizeEach } from '../base/bounded-cache.ts';
import { signingKeyIdentity } from '../domain/common/buckets.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { Caller } from '../ports/credentials.ts';
import { bucketKeyArn, isEntityName, rootArn, userArn } from '../protocol/arns.ts';
import type { Identity, SignedFor } from './identity.ts';
import { anonymous, type Principal } from './policy/request.ts';

export const configured = memoizeEach(
  ({ owner, displayName, accessKey, root }: NonNullable<Identity>): Caller => {
    if (root) return { kind: 'root', account: owner, arn: rootArn(owner), userid: owner };
    const username = isEntityName(displayName) ? displayName : accessKey;
    return {
      kind: 'user',
      account: owner,
      arn: userArn(owner, { name: username }),
      userid: accessKey,
      username,
    };
  },
);

export const callerOf = (identity: NonNullable<Identity>): Caller => identity.caller ?? configured(identity);

export const principalOf = (identity: Identity): Principal =>
  identity === undefined ? anonymous : callerOf(identity);

/** Whom records name: a session by its own ARN, as the public service does, and not by that of its role. */
export function recordedArn(identity: Identity): string {
  const { arn, sessionArn = arn } = principalOf(identity);
  return sessionArn;
}

// Whom a signature proves at a bucket. A bucket with a signing key believes only signatures with that key; and a signature with the
// secret of a bucket, which several may share, proves no identity anywhere else (docs/adr/0032-what-a-bucket-secret-proves.md). Where
// nothing is proven, the caller is judged as an anonymous one. Every decision on a bucket passes here.

/**
 * The caller that the secret of a bucket proves: a holder of it, who acts for the account that owns the bucket. It is neither the root of
 * that account nor one of its users, so neither can be charged, named as the author or asked for an MFA code.
 * @param claimed whose access key id the request names; of the account that owns the bucket
 */
export function asKeyHolder(claimed: NonNullable<Identity>, signedFor: SignedFor): NonNullable<Identity> {
  const { accessKey, owner, displayName } = claimed;
  return {
    accessKey,
    owner,
    displayName,
    root: false,
    operator: false,
    caller: {
      kind: 'user',
      account: owner,
      arn: bucketKeyArn(owner, { name: signedFor.bucketName }),
      userid: owner,
    },
    signedFor: { ...signedFor, claimed },
  };
}

interface Place {
  readonly bucket?: Pick<BucketRow, 'id' | 'signingKey'> | undefined;
  /** Also of a bucket that is about to be created. */
  readonly bucketName: string;
  readonly action?: string | undefined;
}

/** What sets rules by which the gateway sends data to other buckets, peers and targets. */
const reachesBeyond: ReadonlySet<string> = new Set([
  's3:PutBucketLogging',
  's3:PutBucketNotification',
  's3:PutInventoryConfiguration',
  's3:PutReplicationConfiguration',
]);

/** Keys of the key provider are used for objects of the bucket. */
const isKeyAction = (action: string | undefined): boolean => action?.startsWith('kms:') === true;

function isProvenAt(identity: NonNullable<Identity>, { bucket, bucketName, action = '' }: Place): boolean {
  const { signedFor } = identity;
  const isKeyHolder = signedFor?.claimed !== undefined;
  if (isKeyHolder && reachesBeyond.has(action)) return false;
  if (bucket === undefined) return !isKeyHolder || bucketName === signedFor.bucketName || isKeyAction(action);
  const key = signingKeyIdentity(bucket.signingKey);
  if (key === undefined) return !isKeyHolder;
  return signedFor?.bucketId === bucket.id && signedFor.key === key;
}

/** The caller, as the signature proves it at this place. */
export function provenAt<C extends { readonly identity: Identity }>(caller: C, place: Place): C {
  const { identity } = caller;
  return identity === undefined || isProvenAt(identity, place) ? caller : { ...caller, identity: undefined };
}

/** Why a caller that is known counts as an anonymous one. */
export const unprovenText = ({ signedFor }: NonNullable<Identity>): string =>
  signedFor?.claimed === undefined
    ? 'The bucket has a signing key of its own, and this request is not signed with it.'
    : `The secret of the bucket ${signedFor.bucketName} reaches nothing else: sign with the combined secret of an access key.`;

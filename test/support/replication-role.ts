/** The role that replication rules of tests name. */

import type { Credential } from '../../src/ports/credentials.ts';
import { openActions } from './actions.ts';
import { operatorOf } from './clusters.ts';
import { alice, type GatewayWorld } from './gateway.ts';
import { must, trusting } from './iam-users.ts';

export const replicationService = { Service: 's3.amazonaws.com' };
/** The actions of a role that may do all of it. */
export const replicating = [
  's3:GetObjectVersionForReplication',
  's3:GetObjectVersionTagging',
  's3:GetObjectVersionAcl',
  's3:GetObjectRetention',
  's3:GetObjectLegalHold',
  's3:ReplicateObject',
  's3:ReplicateDelete',
  's3:ReplicateTags',
  's3:ObjectOwnerOverrideToBucketOwner',
  'kms:Decrypt',
  'kms:Encrypt',
];

export const roleArnOf = (account: string, name = 'replication'): string =>
  `arn:aws:iam::${account}:role/${name}`;

/** Makes a role of an account, which may do these actions everywhere. @returns its ARN */
export async function makeRole(
  world: Pick<GatewayWorld, 'as'>,
  {
    root = alice,
    name = 'replication',
    trust = trusting(replicationService),
    actions = replicating,
    resource = '*',
  }: {
    root?: Credential;
    name?: string;
    trust?: string;
    actions?: readonly string[];
    resource?: string | readonly string[];
  } = {},
): Promise<string> {
  const iam = openActions(world, { credential: root });
  await must(iam('CreateRole', { RoleName: name, AssumeRolePolicyDocument: trust }));
  const PolicyDocument = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: actions, Resource: resource }],
  });
  await must(iam('PutRolePolicy', { RoleName: name, PolicyName: 'replicate', PolicyDocument }));
  return roleArnOf(root.owner, name);
}

/** Of `awaitDefaultPeer`. */
export const defaultRole = roleArnOf(alice.owner, 'r');

/**
 * Adds the peer `default`, which is not reached, so that rules which name a bucket only are stored and their versions wait. It serves every
 * account. Makes the role that such rules name.
 */
export async function awaitDefaultPeer(
  world: Pick<GatewayWorld, 'as'>,
  bucketOwner = '123456789012',
): Promise<void> {
  await operatorOf(world).must('PUT', '/replication/peers/default', {
    ...{ accessKey: 'peerkey', secretKey: 'secret-secret', endpoint: 'http://127.0.0.1:9' },
    accounts: [{ account: '*', bucketOwner, buckets: ['*'] }],
  });
  await makeRole(world, { name: 'r' });
}

/** Two servers, each with a versioned bucket, of which the first replicates to the second. */

import { trusting } from './iam-users.ts';
import { type LoadClient, loadClient, pathOf } from './load-client.ts';
import { replicating, replicationService, roleArnOf } from './replication-role.ts';
import { type StartOptions, startServer, type TestServer, testCredentials } from './server.ts';

export const replicatingSettings = {
  SVC_EGRESS_ALLOW: '127.0.0.1',
  SVC_REPLICATION_INTERVAL: '50ms',
  SVC_LOG_LEVEL: 'ERROR',
} as const;

const versioned = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const rule = `<ReplicationConfiguration><Role>${roleArnOf(testCredentials.root.owner)}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
  <Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:bucket</Bucket></Destination>
  <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;

/** A server with the bucket. */
export async function startSite(
  options: StartOptions = {},
): Promise<{ server: TestServer; client: LoadClient }> {
  const server = await startServer({ ...options, env: { ...replicatingSettings, ...options.env } });
  const client = loadClient(server.url, testCredentials.root);
  await client.expect({ method: 'PUT', path: pathOf('bucket') });
  await client.expect({ method: 'PUT', path: pathOf('bucket'), query: { versioning: '' }, body: versioned });
  return { server, client };
}

/** Makes the role that the rules of an account name, by default the root's. @param client of an operator */
export async function makeRootRole(
  client: LoadClient,
  { owner }: { readonly owner: string } = testCredentials.root,
): Promise<void> {
  const path = `/admin/v1/accounts/${owner}`;
  const post = (noun: string, body: object) =>
    client.expect({ method: 'POST', path: `${path}/${noun}`, body: JSON.stringify(body) }, [200, 201, 204]);
  const name = 'replication';
  await post('roles', { name, trust: trusting(replicationService) });
  const document = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: replicating, Resource: '*' }],
  });
  await post('policies', { name, document });
  const policy = `arn:aws:iam::${owner}:policy/${name}`;
  await post('attachments', { kind: 'role', name, policy });
}

/** What the keys of a peer are put with. */
export const servingRoot = { accounts: [{ account: testCredentials.root.owner }] };

/** Makes the bucket of a server replicate to that of another one. */
export async function replicateTo(client: LoadClient, { url }: TestServer): Promise<void> {
  const { accessKey, secretKey } = testCredentials.root;
  const body = JSON.stringify({ accessKey, secretKey, ...servingRoot, endpoint: new URL(url).origin });
  await makeRootRole(client);
  await client.expect({ method: 'PUT', path: '/admin/v1/replication/peers/far', body });
  await client.expect({ method: 'PUT', path: pathOf('bucket'), query: { replication: '' }, body: rule });
}

/** Adds the peer `default`, which is not reached, and makes alice's role, so that alice's rules may name a bucket only. */
export async function awaitDefaultPeer(url: string): Promise<void> {
  const client = loadClient(url, testCredentials.root);
  await makeRootRole(client, testCredentials.alice);
  const peer = { accessKey: 'peerkey', secretKey: 'secret-secret', endpoint: 'http://127.0.0.1:9' };
  const body = JSON.stringify({ ...peer, accounts: [{ account: '*', buckets: ['*'] }] });
  await client.expect({ method: 'PUT', path: '/admin/v1/replication/peers/default', body });
}

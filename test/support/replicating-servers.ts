/** Two servers, each with a versioned bucket, of which the first replicates to the second. */
import { type LoadClient, loadClient, pathOf } from './load-client.ts';
import { type StartOptions, startServer, type TestServer, testCredentials } from './server.ts';

export const replicatingSettings = {
  SVC_EGRESS_ALLOW: '127.0.0.1',
  SVC_REPLICATION_INTERVAL: '50ms',
  SVC_LOG_LEVEL: 'ERROR',
} as const;

const versioned = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const rule = `<ReplicationConfiguration><Role>arn:aws:iam::123456789012:role/r</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
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

/** Makes the bucket of a server replicate to that of another one. */
export async function replicateTo(client: LoadClient, { url }: TestServer): Promise<void> {
  const { accessKey, secretKey } = testCredentials.root;
  const body = JSON.stringify({ accessKey, secretKey, endpoint: new URL(url).origin });
  await client.expect({ method: 'PUT', path: '/admin/v1/replication/peers/far', body });
  await client.expect({ method: 'PUT', path: pathOf('bucket'), query: { replication: '' }, body: rule });
}

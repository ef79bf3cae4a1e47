/**
 * A gateway of two processes with every worker, over TLS, after a little of everything: uploads, reads, refusals, deletions, events to a
 * target that takes them and to one that refuses them, replication, encryption, a bucket with a signing key. For what operators see of it.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encryptingSettings } from './encryption.ts';
import { type LoadClient, loadClient, pathOf } from './load-client.ts';
import { makeRootRole, servingRoot, startSite } from './replicating-servers.ts';
import { roleArnOf } from './replication-role.ts';
import { startServer, type TestServer, testCredentials } from './server.ts';
import { one } from './server-tls.ts';
import { openWebhookSink, status, type WebhookSink } from './webhook-sink.ts';

export interface LoadedGateway extends AsyncDisposable {
  readonly server: TestServer;
  readonly client: LoadClient;
  readonly metricsToken: string;
  /** The file of the authority of its certificate. */
  readonly caFile: string;
  /** Everything that must not be shown to anybody. */
  readonly secrets: readonly string[];
  /** The id of a request that was refused. */
  readonly refusedId: string;
  /** The target that takes its events. */
  readonly hook: WebhookSink;
  /** The peer that takes its versions. */
  readonly peer: TestServer;
  /** Some more requests. */
  load(): Promise<void>;
}

const versioned = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const replication = `<ReplicationConfiguration><Role>${roleArnOf(testCredentials.root.owner)}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
  <Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:bucket</Bucket></Destination>
  <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;
const queue = (id: string, event: string): string =>
  `<QueueConfiguration><Event>${event}</Event><Queue>arn:aws:sqs:default:root-account:${id}</Queue></QueueConfiguration>`;
const events = `<NotificationConfiguration>${queue('hook', 's3:ObjectCreated:*')}${queue('closed', 's3:ObjectRemoved:*')}</NotificationConfiguration>`;
const lifecycle = `<LifecycleConfiguration><Rule><ID>e</ID><Filter><Prefix>tmp/</Prefix></Filter><Status>Enabled</Status>
  <Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>`;

export async function startLoadedGateway(env: Readonly<Record<string, string>> = {}): Promise<LoadedGateway> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-loaded-'));
  const [certFile, keyFile] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
  writeFileSync(certFile, one.cert);
  writeFileSync(keyFile, one.key, { mode: 0o600 });
  const metricsToken = randomBytes(16).toString('hex');
  const hookSecret = randomBytes(24).toString('base64');
  const sinks = [await openWebhookSink(), await openWebhookSink()] as const;
  sinks[0].answer = status(200);
  sinks[1].answer = status(400);
  const server = await startServer({
    env: {
      SVC_PROCESSES: '2',
      SVC_LOG_LEVEL: 'INFO',
      SVC_TLS_CERT_FILE: certFile,
      SVC_TLS_KEY_FILE: keyFile,
      SVC_METRICS_TOKEN: metricsToken,
      SVC_EGRESS_ALLOW: '127.0.0.1',
      SVC_GC_GRACE: '1s',
      SVC_GC_INTERVAL: '200ms',
      SVC_BUCKETSTATS_INTERVAL: '1s',
      SVC_NOTIFY_INTERVAL: '50ms',
      SVC_REPLICATION_INTERVAL: '50ms',
      SVC_NOTIFY_TARGETS: JSON.stringify([
        { id: 'hook', accounts: ['*'], type: 'webhook', url: sinks[0].url, secret: `whsec_${hookSecret}` },
        { id: 'closed', accounts: ['*'], type: 'webhook', url: sinks[1].url },
      ]),
      ...(await encryptingSettings()),
      ...env,
    },
  });
  const { root } = testCredentials;
  const peer = await startSite({ dataDir: 'memory' });
  const client = loadClient(server.url, root, 8, one.cert);
  const load = () => sendMixedRequests(client);
  const secret = await configure(client, peer.server);
  await load();
  const refused = await client.send({ path: pathOf('photos', 'no-such-key') });
  return {
    server,
    client,
    metricsToken,
    caFile: certFile,
    secrets: [
      ...Object.values(testCredentials).map(({ secretKey }) => secretKey),
      metricsToken,
      hookSecret,
      secret,
      one.key.split('\n')[1] as string,
    ],
    refusedId: String(refused.headers['x-amz-request-id']),
    load,
    hook: sinks[0],
    peer: peer.server,
    async [Symbol.asyncDispose]() {
      client.close();
      peer.client.close();
      await Promise.all([server.stop(), peer.server.stop()]);
      for (const sink of sinks as readonly WebhookSink[]) await sink[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** @returns the secret of the bucket with a signing key */
async function configure(client: LoadClient, peer: TestServer): Promise<string> {
  const put = (path: string, query: Readonly<Record<string, string>>, body?: string) =>
    client.expect({ method: 'PUT', path, query, ...(body === undefined ? {} : { body }) });
  for (const bucket of ['photos', 'sealed']) await put(pathOf(bucket), {});
  await put(pathOf('photos'), { versioning: '' }, versioned);
  const { accessKey, secretKey } = testCredentials.root;
  const far = { accessKey, secretKey, ...servingRoot, endpoint: new URL(peer.url).origin };
  await makeRootRole(client);
  await put('/admin/v1/replication/peers/far', {}, JSON.stringify(far));
  await put(pathOf('photos'), { replication: '' }, replication);
  await put(pathOf('photos'), { notification: '' }, events);
  await put(pathOf('photos'), { lifecycle: '' }, lifecycle);
  const rotated = await client.expect({
    method: 'POST',
    path: '/admin/v1/buckets/sealed/signing-key/rotate',
    body: JSON.stringify({ key_id: 'first' }),
  });
  return String((JSON.parse(rotated.text) as { secret_access_key: string }).secret_access_key);
}

async function sendMixedRequests(client: LoadClient): Promise<void> {
  const some = Array.from({ length: 12 }, (_, n) => n);
  await Promise.all(
    some.map(async (n) => {
      const path = pathOf('photos', `a/${n}`);
      const encrypted = {
        'x-amz-server-side-encryption': 'aws:kms',
        'x-amz-server-side-encryption-aws-kms-key-id': 'first',
      };
      await client.expect({
        method: 'PUT',
        path,
        body: randomBytes(n * 1000),
        ...(n % 4 === 0 ? { headers: encrypted } : {}),
      });
      await client.expect({ path });
      await client.expect({ method: 'HEAD', path });
      await client.send({ path: pathOf('photos', `missing/${n}`) });
      if (n % 3 === 0) await client.expect({ method: 'DELETE', path });
    }),
  );
  await client.expect({ method: 'PUT', path: pathOf('photos', 'batch'), body: 'x' });
  const body = '<Delete><Object><Key>batch</Key></Object><Object><Key>a/3</Key></Object></Delete>';
  const md5 = createHash('md5').update(body).digest('base64');
  const several = { method: 'POST', path: pathOf('photos'), query: { delete: '' }, body };
  await client.expect({ ...several, headers: { 'content-md5': md5 } });
  await client.expect({ path: pathOf('photos'), query: { 'list-type': '2' } });
  const versions = await client.expect({ path: pathOf('photos'), query: { versions: '' } });
  // Something for gc: a version that is removed for good.
  const id = /<VersionId>([^<]+)<\/VersionId>/.exec(versions.text)?.[1] ?? '';
  const key = /<Key>([^<]+)<\/Key>/.exec(versions.text)?.[1] ?? '';
  await client.expect({ method: 'DELETE', path: pathOf('photos', key), query: { versionId: id } });
}

/**
 * `node bench/after-deletes.ts`: what memory one process holds after many keys were written and deleted, by kind, and how long the
 * listings take that pass the delete markers of a versioned bucket. Metadata `embedded`, nothing flushed.
 */
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { elements, type LoadClient, loadClient, pathOf } from '../test/support/load-client.ts';
import { startServer } from '../test/support/server.ts';

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '1000000' },
    markers: { type: 'string', default: '100000' },
    clients: { type: 'string', default: '32' },
    dir: { type: 'string', default: tmpdir() },
  },
});
const mib = 2 ** 20;
/** The largest number of keys in one DeleteObjects request. */
const keysPerRequest = 1000;
const digits = 8;

const keyAt = (index: number): string => `desert/${String(index).padStart(digits, '0')}`;

async function eachOf(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Number(values.clients) }, worker));
}

async function deleteAll(client: LoadClient, bucket: string, count: number): Promise<void> {
  await eachOf(Math.ceil(count / keysPerRequest), async (request) => {
    const start = request * keysPerRequest;
    const length = Math.min(keysPerRequest, count - start);
    const objects = Array.from({ length }, (_, i) => `<Object><Key>${keyAt(start + i)}</Key></Object>`);
    const body = `<Delete><Quiet>true</Quiet>${objects.join('')}</Delete>`;
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
    await client.expect({ method: 'POST', path: pathOf(bucket), query: { delete: '' }, body, headers });
  });
}

/** Memory in MiB, by kind. */
async function memoryOf(client: LoadClient, dataDir: string): Promise<string> {
  const { text } = await client.expect({ path: '/metrics' });
  const kinds = [...text.matchAll(/^svc_memory_bytes\{[^}]*kind="(\w+)"[^}]*\} (\S+)$/gm)];
  const rss = /^process_resident_memory_bytes(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1];
  const file = statSync(join(dataDir, 'metadata/data.mdb')).size;
  const shown = [...kinds.map(([, kind, bytes]) => [kind, bytes]), ['RSS', rss], ['data.mdb', file]];
  return shown.map(([name, bytes]) => `${name} ${(Number(bytes) / mib).toFixed(0)}`).join(', ');
}

async function timed(name: string, work: () => Promise<unknown>): Promise<void> {
  const start = performance.now();
  await work();
  console.log(`${name}: ${((performance.now() - start) / 1000).toFixed(2)} s`);
}

async function pagesOfVersions(client: LoadClient): Promise<void> {
  let [pages, slowestMs] = [0, 0];
  let query: Record<string, string> = { versions: '' };
  for (;;) {
    const start = performance.now();
    const { text } = await client.expect({ path: pathOf('versioned'), query });
    slowestMs = Math.max(slowestMs, performance.now() - start);
    pages += 1;
    if (!text.includes('<IsTruncated>true')) break;
    const [key = ''] = elements(text, 'NextKeyMarker');
    const [version = ''] = elements(text, 'NextVersionIdMarker');
    query = { versions: '', 'key-marker': key, 'version-id-marker': version };
  }
  console.log(`ListObjectVersions: ${pages} pages, the slowest ${slowestMs.toFixed(0)} ms`);
}

const dataDir = await mkdtemp(join(values.dir, 'sluice-after-deletes-'));
const server = await startServer({ dataDir, env: { SVC_FSYNC: 'never', SVC_LOG_LEVEL: 'ERROR' } });
const client = loadClient(server.url, server.credentials.root);
try {
  const [keys, markers] = [Number(values.keys), Number(values.markers)];
  await client.expect({ method: 'PUT', path: pathOf('plain') });
  console.log(`at the start, MiB: ${await memoryOf(client, dataDir)}`);
  await timed(`${keys} PUTs`, () =>
    eachOf(keys, (index) => client.expect({ method: 'PUT', path: pathOf('plain', keyAt(index)), body: '' })),
  );
  console.log(`after the PUTs, MiB: ${await memoryOf(client, dataDir)}`);
  await timed(`${keys} deletions`, () => deleteAll(client, 'plain', keys));
  console.log(`after the deletions, MiB: ${await memoryOf(client, dataDir)}`);

  const versioning = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await client.expect({ method: 'PUT', path: pathOf('versioned') });
  await client.expect({
    method: 'PUT',
    path: pathOf('versioned'),
    query: { versioning: '' },
    body: versioning,
  });
  await timed(`${markers} delete markers`, () => deleteAll(client, 'versioned', markers));
  await client.expect({ method: 'PUT', path: pathOf('versioned', 'oasis'), body: 'x' });
  await pagesOfVersions(client);
  const behind = { path: pathOf('versioned'), query: { versions: '', delimiter: '/' } };
  await timed('one page of ListObjectVersions that folds all markers into one prefix', () =>
    client.expect(behind),
  );
  await timed('one page of ListObjectsV2 past all markers', () =>
    client.expect({ path: pathOf('versioned'), query: { 'list-type': '2' } }),
  );
} finally {
  client.close();
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
}

/** A node that is killed in the middle of lifecycle passes carries out everything that is due once, and nothing else. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { openDice } from '../support/dice.ts';
import { elements, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { fsck } from './kill-rounds.ts';

const seed = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
/** The lease of the killed process expires first, after 15 s. */
const patience = { timeout: 180_000, interval: 100 };
const objects = 300;
const body = 'x'.repeat(100);

const rule = (id: string, prefix: string, action: string, filter = `<Prefix>${prefix}</Prefix>`): string =>
  `<Rule><ID>${id}</ID><Status>Enabled</Status><Filter>${filter}</Filter>${action}</Rule>`;
/** Without a size, transitions leave objects below 128 KiB where they are (public API). */
const small = '<And><Prefix>move/</Prefix><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></And>';
const rules = [
  rule('expire', 'due/', '<Expiration><Days>1</Days></Expiration>'),
  rule(
    'move',
    'move/',
    '<Transition><Days>1</Days><StorageClass>STANDARD_IA</StorageClass></Transition>',
    small,
  ),
  rule(
    'abort',
    'part/',
    '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>',
  ),
].join('');
const versionRules = rule(
  'old',
  '',
  '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>',
);

interface Listed {
  readonly key: string;
  readonly storageClass: string;
}

async function list(client: LoadClient, bucket: string): Promise<readonly Listed[]> {
  const { text } = await client.expect({ path: pathOf(bucket), query: { 'list-type': '2' } });
  const classes = elements(text, 'StorageClass');
  return elements(text, 'Key').map((key, n) => ({ key, storageClass: classes[n] ?? '' }));
}

const versions = async (client: LoadClient): Promise<readonly string[]> => {
  const { text } = await client.expect({ path: pathOf('versions'), query: { versions: '' } });
  const ids = elements(text, 'VersionId');
  return elements(text, 'Key').map((key, n) => `${key} ${ids[n]}`);
};

async function furnish(client: LoadClient): Promise<{ readonly kept: readonly string[] }> {
  const put = (bucket: string, key: string) =>
    client.expect({ method: 'PUT', path: pathOf(bucket, key), body });
  await client.expect({ method: 'PUT', path: pathOf('bucket') });
  const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
  await client.expect({ method: 'PUT', path: pathOf('versions'), headers });
  for (let n = 0; n < objects; n += 1) {
    await put('bucket', `due/${n}`);
    if (n % 3 === 0) await put('bucket', `keep/${n}`);
    if (n % 3 === 0) await put('bucket', `move/${n}`);
    if (n % 10 === 0)
      await client.expect({ method: 'POST', path: pathOf('bucket', `part/${n}`), query: { uploads: '' } });
    await put('versions', `${n % 50}`);
  }
  const oldest = (await versions(client)).filter((each) => each.startsWith('7 ')).at(-1) ?? '';
  const [key = '', versionId = ''] = oldest.split(' ');
  const hold = '<LegalHold><Status>ON</Status></LegalHold>';
  const query = { 'legal-hold': '', versionId };
  await client.expect({ method: 'PUT', path: pathOf('versions', key), query, body: hold });
  return { kept: [oldest] };
}

test(`seed ${seed}: after kills in the middle of passes everything that is due is done, and nothing else`, async () => {
  const dice = openDice(seed);
  const env = {
    SVC_FSYNC: 'never',
    SVC_PROCESSES: '2',
    SVC_LIFECYCLE_DAY: '1s',
    SVC_LIFECYCLE_INTERVAL: '1s',
    SVC_LIFECYCLE_RATE: '100',
    SVC_INTENT_TTL: '1s',
    SVC_GC_GRACE: '0s',
    SVC_LOG_LEVEL: 'ERROR',
  };
  let server = await startServer({ env });
  const { dataDir } = server;
  let client = loadClient(server.url, testCredentials.root);
  const { kept } = await furnish(client);
  const set = (bucket: string, text: string) =>
    client.expect({
      method: 'PUT',
      path: pathOf(bucket),
      query: { lifecycle: '' },
      body: `<LifecycleConfiguration>${text}</LifecycleConfiguration>`,
    });
  await set('bucket', rules);
  await set('versions', versionRules);
  const isDue = ({ key, storageClass }: Listed): boolean =>
    key.startsWith('due/') || (key.startsWith('move/') && storageClass === 'STANDARD');
  const due = async (): Promise<number> => (await list(client, 'bucket')).filter(isDue).length;
  for (let kill = 0; kill < 2; kill += 1) {
    const before = await due();
    await expect.poll(due, { ...patience, interval: 5 }).toBeLessThan(before - dice.roll(100));
    await server.kill9();
    client.close();
    server = await startServer({ env, dataDir });
    client = loadClient(server.url, testCredentials.root);
  }
  await expect.poll(due, patience).toBe(0);
  await expect.poll(async () => (await versions(client)).length, patience).toBe(50 + kept.length);
  const uploads = async () =>
    elements((await client.expect({ path: pathOf('bucket'), query: { uploads: '' } })).text, 'UploadId')
      .length;
  await expect.poll(uploads, patience).toBe(0);
  const left = await list(client, 'bucket');
  expect(left).toHaveLength((objects / 3) * 2);
  for (const { key } of left) expect((await client.expect({ path: pathOf('bucket', key) })).text).toBe(body);
  expect(await versions(client)).toEqual(expect.arrayContaining([...kept]));
  client.close();
  await server.stop();
  // Counters, index and bytes agree.
  const { code, text } = await fsck(dataDir);
  expect([code, text]).toEqual([0, expect.any(String)]);
  await rm(dataDir, { recursive: true, force: true });
});

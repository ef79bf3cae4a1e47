/** A real small file system that fills up under a gateway: clients can always delete. */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Answer, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import type { TestServer } from '../support/server.ts';
import { besideServer, canMount, SmallDisks } from '../support/small-disk.ts';
import { cliPath } from './command.ts';

const bucket = 'bucket';
const env = {
  SVC_DISK_RESERVE: '8MiB',
  SVC_PROCESSES: '2',
  SVC_GC_GRACE: '0s',
  SVC_GC_INTERVAL: '100ms',
  SVC_INTENT_TTL: '1s',
  SVC_METRICS_TOKEN: 'let-me-read',
};
const patience = { timeout: 180_000, interval: 100 };
const putsMax = 4_000;

const clientOf = (server: TestServer): LoadClient => loadClient(server.url, server.credentials.root, 8);

interface Running {
  readonly server: TestServer;
  readonly client: LoadClient;
}

/** Kills the server and starts another one on the same disks. */
async function startAgain({ server, client }: Running, start: () => Promise<TestServer>): Promise<Running> {
  await server.kill9();
  client.close();
  const next = await start();
  return { server: next, client: clientOf(next) };
}

/** Long headers fill metadata faster. */
const headers = { 'x-amz-meta-filler': 'x'.repeat(1_800) };

const put = (client: LoadClient, key: string, bytes: number): Promise<Answer> =>
  client.send({ method: 'PUT', path: pathOf(bucket, key), body: Buffer.alloc(bytes, key), headers });

const lanes = 8;

/** Stores objects until one is refused; `sizes` in turn. @returns the keys that were acknowledged, and a refusal */
async function fill(client: LoadClient, sizes: readonly number[]) {
  const keys: string[] = [];
  let refusal: Answer | undefined;
  let n = 0;
  const lane = async (): Promise<void> => {
    while (refusal === undefined && n < putsMax) {
      const key = `key-${n++}`;
      const answer = await put(client, key, sizes[n % sizes.length] as number);
      if (answer.status === 200) keys.push(key);
      // A process that a busy machine held up for longer than SVC_INTENT_TTL gives its writes up; clients repeat them.
      else if (answer.status !== 503) refusal = answer;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  if (refusal === undefined) throw new Error('the disk was never full');
  return { keys, refusal };
}

async function removeAll(client: LoadClient, keys: readonly string[]): Promise<void> {
  const left = keys.values();
  const lane = async (): Promise<void> => {
    for (const key of left) {
      const { status, text } = await client.send({ method: 'DELETE', path: pathOf(bucket, key) });
      expect([key, status, text]).toEqual([key, 204, '']);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** Waits until gc has freed the space. */
const expectWritable = (client: LoadClient): Promise<void> =>
  expect.poll(() => put(client, 'again', 300_000).then(({ status }) => status), patience).toBe(200);

/** The ballast is made within seconds of the start. */
const hasBallast = (server: TestServer, dataDir: string): boolean =>
  besideServer(server, `test -e ${join(dataDir, 'metadata/reserve')}`);

describe.skipIf(!canMount())('a full disk', () => {
  test('PutObject is refused below the reserve with 507, GetObject and DeleteObject work, and PutObject works again after gc, across a kill', async () => {
    using disks = new SmallDisks();
    const { directory: dataDir } = disks.add('data', 48);
    let server = await disks.start({ dataDir, env });
    let client = clientOf(server);
    try {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      const { keys, refusal } = await fill(client, [300_000, 4_000, 900_000]);
      expect([refusal.status, refusal.text]).toEqual([
        507,
        expect.stringContaining('<Code>InsufficientStorage</Code>'),
      ]);
      expect(keys.length).toBeGreaterThan(20);
      for (const key of keys.slice(0, 5))
        expect((await client.send({ path: pathOf(bucket, key) })).status).toBe(200);
      ({ server, client } = await startAgain({ server, client }, () => disks.start({ dataDir, env })));
      expect((await put(client, 'more', 1_000_000)).status).toBe(507);
      await removeAll(client, keys);
      await expectWritable(client);
      const { text } = await client.expect({ path: '/', query: { audit: '' } });
      expect(text).toContain('DeleteObject');
      expect(text).not.toContain('InsufficientStorage');
    } finally {
      client.close();
      await server.stop();
    }
  });

  test('DeleteObject works where another program has taken the last byte, and after a restart', async () => {
    using disks = new SmallDisks();
    const { directory: dataDir } = disks.add('data', 48);
    let server = await disks.start({ dataDir, env });
    let client = clientOf(server);
    try {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      const keys = Array.from({ length: 30 }, (_, n) => `key-${n}`);
      for (const key of keys) expect((await put(client, key, 20_000)).status).toBe(200);
      await expect.poll(() => hasBallast(server, dataDir), patience).toBe(true);
      besideServer(server, `cat /dev/zero > ${join(dataDir, 'another-program')}`);
      expect((await put(client, 'more', 20_000)).status).toBe(507);
      const upload = { method: 'POST', path: pathOf(bucket, 'upload'), query: { uploads: '' } };
      expect((await client.send(upload)).status).toBe(507);
      const metrics = () =>
        fetch(`${server.url}/metrics`, { headers: { Authorization: 'Bearer let-me-read' } }).then((r) =>
          r.text(),
        );
      await expect.poll(metrics, patience).toContain('svc_disk_refuses_writes{component="metadata"} 1');
      await removeAll(client, keys.slice(0, 10));
      ({ server, client } = await startAgain({ server, client }, () => disks.start({ dataDir, env })));
      expect((await put(client, 'more', 20_000)).status).toBe(507);
      await removeAll(client, keys.slice(10));
      besideServer(server, `rm ${join(dataDir, 'another-program')}`);
      await expectWritable(client);
      await expect.poll(() => hasBallast(server, dataDir), patience).toBe(true);
    } finally {
      client.close();
      await server.stop();
    }
  });

  test('sluice backup copies the data of a full disk to another disk', async () => {
    using disks = new SmallDisks();
    const { directory: dataDir } = disks.add('data', 48);
    const server = await disks.start({ dataDir, env });
    const client = clientOf(server);
    try {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      expect((await put(client, 'key', 20_000)).status).toBe(200);
      await expect.poll(() => hasBallast(server, dataDir), patience).toBe(true);
      besideServer(server, `cat /dev/zero > ${join(dataDir, 'another-program')}`);
      expect((await put(client, 'more', 20_000)).status).toBe(507);
      const to = join(disks.own, 'backup');
      const backup = `${process.execPath} ${cliPath} backup --data-dir=${dataDir} --to=${to}`;
      expect(besideServer(server, `SVC_DISK_RESERVE=${env.SVC_DISK_RESERVE} ${backup}`)).toBe(true);
    } finally {
      client.close();
      await server.stop();
    }
  });

  test('while another program goes on filling the disk to the last byte, DeleteObjects and DeleteObject empty it, and gc removes the bytes', async () => {
    using disks = new SmallDisks();
    const { directory: dataDir } = disks.add('data', 48);
    const server = await disks.start({ dataDir, env });
    const client = clientOf(server);
    try {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      const keys = Array.from({ length: 60 }, (_, n) => `key-${n}`);
      for (const [n, key] of keys.entries())
        expect((await put(client, key, n % 2 === 0 ? 300_000 : 20_000)).status).toBe(200);
      const has = (name: string) => () => besideServer(server, `test -e ${join(dataDir, name)}`);
      for (const name of ['metadata/reserve', 'chunks/default/reserve'])
        await expect.poll(has(name), patience).toBe(true);
      const filler = `while test ! -e ${disks.own}/enough; do cat /dev/zero >> ${join(dataDir, 'another-program')} 2>/dev/null; done`;
      expect(besideServer(server, `(${filler}) >/dev/null 2>&1 </dev/null & echo $!`)).toBe(true);
      await expect.poll(() => put(client, 'more', 20_000).then(({ status }) => status), patience).toBe(507);
      // Workers run meanwhile: heartbeats, leases, samples and probes of readiness.
      await new Promise((resolve) => setTimeout(resolve, 8_000));
      const named = keys.slice(0, 30).map((key) => `<Object><Key>${key}</Key></Object>`);
      const body = Buffer.from(`<Delete>${named.join('')}</Delete>`);
      const answer = await client.send({
        method: 'POST',
        path: pathOf(bucket),
        query: { delete: '' },
        body,
        headers: { 'content-md5': createHash('md5').update(body).digest('base64') },
      });
      expect([answer.status, answer.text.match(/<Deleted>/g)?.length, answer.text]).toEqual([
        200,
        30,
        expect.not.stringContaining('<Error>'),
      ]);
      await removeAll(client, keys.slice(30));
      const hasChunks = () =>
        besideServer(server, `find ${dataDir}/chunks/default/large -type f | grep -q .`);
      await expect.poll(hasChunks, patience).toBe(false);
      writeFileSync(join(disks.own, 'enough'), '');
      await new Promise((resolve) => setTimeout(resolve, 500));
      besideServer(server, `rm ${join(dataDir, 'another-program')}`);
      await expectWritable(client);
    } finally {
      writeFileSync(join(disks.own, 'enough'), '');
      client.close();
      await server.stop();
    }
  });

  test('/readyz is 503 while a disk is full or read-only, with the reason for operators only', async () => {
    using disks = new SmallDisks();
    const { directory: dataDir } = disks.add('data', 48);
    // Two, because lmdb harms the process whose commit is under way when the disk becomes read-only: the other one goes on.
    const server = await disks.start({ dataDir, env: { ...env, SVC_PROCESSES: '2' } });
    const client = clientOf(server);
    const ready = (query: Readonly<Record<string, string>> = {}) => client.send({ path: '/readyz', query });
    const status = (query?: Readonly<Record<string, string>>) => () => ready(query).then((at) => at.status);
    const states = async (): Promise<unknown> =>
      JSON.parse((await ready()).text).components.map(
        (each: { component: string; status: string }) => `${each.component} ${each.status}`,
      );
    try {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      expect((await put(client, 'key', 100)).status).toBe(200);
      expect((await ready()).status).toBe(200);
      besideServer(server, `head -c 60000000 /dev/zero > ${join(dataDir, 'another-program')}`);
      // Each component of each process looks at the disk in its own time.
      await expect.poll(states, patience).toEqual(['metadata full', 'data:default full', 'settings ok']);
      await expect.poll(status(), patience).toBe(503);
      await expect.poll(status({ need: 'reads' }), patience).toBe(200);
      const stranger = () => fetch(`${server.url}/readyz`).then(async (at) => [at.status, await at.text()]);
      await expect.poll(stranger, patience).toEqual([503, 'not ready\n']);
      besideServer(server, `rm ${join(dataDir, 'another-program')}`);
      await expect.poll(states, patience).toEqual(['metadata ok', 'data:default ok', 'settings ok']);
      // Remount read-only, as the kernel does after a disk error.
      const fault = `echo x > /sys/fs/ext4/$(basename $(findmnt -n -o SOURCE ${dataDir}))/trigger_fs_error`;
      expect(besideServer(server, fault)).toBe(true);
      await expect.poll(states, patience).toEqual(['metadata failed', 'data:default failed', 'settings ok']);
      await expect.poll(status({ need: 'reads' }), patience).toBe(503);
    } finally {
      client.close();
      await server.stop();
    }
  });

  test.each([
    { full: 'metadata', metadata: 14, data: 64, inodes: '4096', sizes: [100] },
    { full: 'data', metadata: 64, data: 24, inodes: '4096', sizes: [300_000] },
    { full: 'data, out of inodes,', metadata: 64, data: 64, inodes: '128', sizes: [270_000] },
  ])('with metadata and data on separate disks, a full disk of $full can be emptied', async (world) => {
    using disks = new SmallDisks();
    const metadata = disks.add('metadata', world.metadata);
    const data = disks.add('chunks', world.data, '-N', world.inodes);
    const clusters = JSON.stringify([{ id: 'default', dir: data.directory }]);
    const settings = { ...env, SVC_POOL_CLUSTERS: clusters, SVC_FSYNC: 'never' };
    const server = await disks.start({ dataDir: disks.own, env: settings });
    const client = clientOf(server);
    try {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      const { keys, refusal } = await fill(client, world.sizes);
      expect(refusal.status, refusal.text).toBe(507);
      await removeAll(client, keys);
      if (world.full !== 'metadata') await expectWritable(client);
    } finally {
      client.close();
      await server.stop();
    }
    void metadata;
  });
});

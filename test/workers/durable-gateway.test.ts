/** The durable gateway in workerd, under miniflare with persistence: restarts, isolates that race, errors of R2, and the workers. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Miniflare, type MiniflareOptions } from 'miniflare';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { R2Bucket } from '../../src/backends/data/r2.ts';
import { type Answer, type Send, sender } from '../runtimes/client.ts';
import { durableBindings, workerdEntry } from '../runtimes/workerd.ts';
import { testCredentials } from '../support/server.ts';
import { signer } from '../support/sign.ts';
import { bundleWorker } from './bundle.ts';
import { askAdmin, auditedWrites, clientOf, clientsOfBoth, scriptOf, twoIsolates } from './gateways.ts';

let bundle = '';
beforeAll(async () => {
  bundle = await bundleWorker(workerdEntry);
});

let directory = '';
const running: Miniflare[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'workers-'));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((worker) => worker.dispose()));
  await rm(directory, { recursive: true, force: true });
});

async function start(options: MiniflareOptions): Promise<Miniflare> {
  const persist = { r2Persist: join(directory, 'r2'), durableObjectsPersist: join(directory, 'objects') };
  const worker = new Miniflare({ ...persist, handleStructuredLogs: () => {}, ...options });
  running.push(worker);
  await worker.ready;
  return worker;
}

async function stop(worker: Miniflare): Promise<void> {
  running.splice(running.indexOf(worker), 1);
  await worker.dispose();
}

interface Running {
  readonly worker: Miniflare;
  readonly send: Send;
}

const withShards = (shards: number) => ({
  ...durableBindings,
  bindings: {
    ...durableBindings.bindings,
    ...(shards === 1 ? {} : { SLUICE_SHARDS: String(shards) }),
  },
});

const open = async (shards = 1, options: MiniflareOptions = scriptOf(bundle)): Promise<Running> => {
  const worker = await start({ ...options, ...withShards(shards) } as MiniflareOptions);
  return { worker, send: await clientOf(worker) };
};

const patience = { timeout: 180_000, interval: 250 };

test.each([1, 4])(
  'what was answered 200 is there after a restart in the middle of writes, and nothing is there by half (%s objects)',
  async (shards) => {
    const first = await open(shards);
    expect((await first.send('PUT', '/restart')).status).toBe(200);
    const sent = new Map<string, Buffer>();
    const acknowledged: string[] = [];
    let isOver = false;
    const writer = async (name: string): Promise<void> => {
      for (let turn = 0; !isOver; turn += 1) {
        const [key, body] = [`${name}-${turn}`, randomBytes(turn % 4 === 0 ? 300_000 : 2_000)];
        sent.set(key, body);
        const reply = await first.send('PUT', `/restart/${key}`, { body }).catch(() => undefined);
        if (reply?.status === 200) acknowledged.push(key);
      }
    };
    const writers = Promise.all(['a', 'b', 'c', 'd'].map(writer));
    await vi.waitFor(() => expect(acknowledged.length).toBeGreaterThan(30), patience);
    await stop(first.worker);
    isOver = true;
    await writers;
    const { send } = await open(shards);
    for (let turn = 0; turn < 8; turn += 1) {
      const [key, body] = [`later-${turn}`, randomBytes(2_000)];
      sent.set(key, body);
      expect((await send('PUT', `/restart/${key}`, { body })).status).toBe(200);
      acknowledged.push(key);
    }
    for (const [key, body] of sent) {
      const reply = await send('GET', `/restart/${key}`);
      if (acknowledged.includes(key)) expect(reply.status, key).toBe(200);
      else expect([200, 404], key).toContain(reply.status);
      if (reply.status === 200) expect(reply.bytes.equals(body), key).toBe(true);
    }
    const listed = await send('GET', '/restart?list-type=2');
    const keys = [...listed.text.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key]) => key);
    expect(keys).toEqual(expect.arrayContaining(acknowledged));
    const shown = JSON.parse((await send('GET', '/admin/v1/buckets/restart')).text);
    expect(shown.objects).toBe(keys.length);
  },
);

test('a user’s secret key, which is stored sealed, works after a restart', async () => {
  const first = await open();
  const ask = async (send: Send, query: string): Promise<Answer> => send('POST', `/?${query}`);
  const created = await ask(first.send, 'Action=CreateUser&UserName=ann&Version=2010-05-08');
  expect(created.status, created.text).toBe(200);
  const key = (await ask(first.send, 'Action=CreateAccessKey&UserName=ann&Version=2010-05-08')).text;
  const [accessKey = '', secretKey = ''] = ['AccessKeyId', 'SecretAccessKey'].map(
    (name) => new RegExp(`<${name}>(.*?)</${name}>`).exec(key)?.[1] ?? '',
  );
  await stop(first.worker);
  const { worker } = await open();
  const { origin: url } = await worker.ready;
  // Without a policy she may do nothing; a wrong secret would be another error.
  const reply = await sender({ url, accessKey, secretKey })('GET', '/');
  expect(reply.text).toContain('AccessDenied');
  const wrong = await sender({ url, accessKey, secretKey: 'wrong' })('GET', '/');
  expect(wrong.text).toContain('SignatureDoesNotMatch');
});

test('metadata of an object keep a name that means something to JavaScript', async () => {
  const { send } = await open();
  await send('PUT', '/names');
  const headers = { '*-meta-__proto__': 'one', '*-meta-constructor': 'two' };
  expect((await send('PUT', '/names/k', { body: 'k', headers })).status).toBe(200);
  expect((await send('GET', '/names/k')).headers).toMatchObject({
    ...JSON.parse('{"x-amz-meta-__proto__":"one"}'),
    'x-amz-meta-constructor': 'two',
  });
});

test.each([1, 4])(
  'PutObject with If-None-Match: * succeeds for exactly one of 20 writers in two isolates (%s objects)',
  async (shards) => {
    const workers = twoIsolates(bundle, withShards(shards).bindings);
    const worker = await start({ workers } as MiniflareOptions);
    const sends = await clientsOfBoth(worker);
    const [one, two] = sends;
    expect((await one('PUT', '/race')).status).toBe(200);
    for (let round = 0; round < 5; round += 1) {
      const bodies = Array.from({ length: 20 }, (_, writer) => `round ${round}, writer ${writer}`);
      const replies = await Promise.all(
        bodies.map((body, writer) =>
          (writer % 2 === 0 ? one : two)('PUT', `/race/k${round}`, {
            body,
            headers: { 'if-none-match': '*' },
          }),
        ),
      );
      const winners = replies.flatMap(({ status }, writer) => (status === 200 ? [writer] : []));
      expect(winners, replies.map(({ status }) => status).join()).toHaveLength(1);
      expect(replies.filter(({ status }) => status === 412 || status === 409)).toHaveLength(19);
      const body = bodies[winners[0] as number] as string;
      for (const send of sends) expect((await send('GET', `/race/k${round}`)).text).toBe(body);
    }
  },
);

test.each([1, 4])(
  'gc of an alarm removes the bytes of what was overwritten and deleted (%s objects)',
  async (shards) => {
    const { worker, send } = await open(shards);
    // The cast: its types need those of Cloudflare.
    const bucket = (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket;
    const stored = async () => (await bucket.list({ prefix: '' })).objects.length;
    await send('PUT', '/collected');
    for (const turn of [1, 2, 3]) await send('PUT', '/collected/k', { body: `version ${turn}` });
    await send('PUT', '/collected/gone', { body: randomBytes(5_000_000) });
    expect((await send('DELETE', '/collected/gone')).status).toBe(204);
    await vi.waitFor(async () => expect(await stored()).toBe(1), patience);
    expect((await send('GET', '/collected/k')).text).toBe('version 3');
  },
);

test('variables may be numbers, booleans and JSON, as wrangler binds them: requests are answered, and the workers run', async () => {
  const bindings = {
    ...durableBindings.bindings,
    SVC_CREDENTIALS: Object.values(testCredentials),
    SVC_SLOW_MS: 250,
    SVC_REGION_STRICT: true,
    SVC_WORKERS: ['gc'],
    SVC_GC_GRACE: 0,
    SLUICE_WORKERS_EVERY: 1,
    SLUICE_SHARDS: 1,
  };
  const worker = await start({ ...scriptOf(bundle), ...durableBindings, bindings } as MiniflareOptions);
  const send = await clientOf(worker);
  // The cast: its types need those of Cloudflare.
  const bucket = (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket;
  const stored = async () => (await bucket.list({ prefix: '' })).objects.length;
  expect((await send('PUT', '/typed')).status).toBe(200);
  expect((await send('PUT', '/typed/k', { body: randomBytes(5_000_000) })).status).toBe(200);
  expect(await stored()).toBeGreaterThan(0);
  expect((await send('DELETE', '/typed/k')).status).toBe(204);
  await vi.waitFor(async () => expect(await stored()).toBe(0), patience);
});

test.each([
  ['in a Durable Object', durableBindings],
  ['in its own memory', {}],
])(
  'an isolate with metadata %s writes the traffic that it counted, again and again, at the interval that operators read',
  async (_, of) => {
    const bindings = { ...durableBindings.bindings, SVC_USAGE_TRAFFIC_INTERVAL: '200ms' };
    const worker = await start({ ...scriptOf(bundle), ...of, bindings } as MiniflareOptions);
    const send = await clientOf(worker);
    expect((await send('PUT', '/counted')).status).toBe(200);
    expect((await askAdmin(send, 'settings')).rows).toContainEqual(
      expect.objectContaining({ name: 'SVC_USAGE_TRAFFIC_INTERVAL', value: '200ms', source: 'env' }),
    );
    const written = async () => {
      const { rows } = await askAdmin(send, 'buckets/counted/traffic');
      return rows[0]?.requestsB;
    };
    for (let round = 1; round <= 3; round += 1) {
      for (let turn = 0; turn < 4; turn += 1) expect((await send('HEAD', '/counted')).status).toBe(200);
      await vi.waitFor(async () => expect(await written()).toBe(4 * round), patience);
    }
  },
);

test('the log names a variable that has no sense', async () => {
  const log: string[] = [];
  const handleStructuredLogs = ({ message }: { readonly message: string }) => void log.push(message);
  const openWith = async (more: object): Promise<Send> => {
    const bindings = { ...durableBindings.bindings, ...more };
    const options = { ...scriptOf(bundle), ...durableBindings, bindings, handleStructuredLogs };
    return clientOf(await start(options as MiniflareOptions));
  };
  const refused = await openWith({ SVC_NOTIFY_INTERVAL: 5 });
  expect((await refused('PUT', '/named')).status).toBe(500);
  const isLogged = (text: string) => vi.waitFor(() => expect(log.join()).toContain(text), patience);
  await isLogged('SVC_NOTIFY_INTERVAL=5 is not a duration');
  const send = await openWith({ SLUICE_WORKERS_EVERY: '5m' });
  expect((await send('PUT', '/named')).status).toBe(200);
  await isLogged('SLUICE_WORKERS_EVERY=5m is not a number of seconds');
});

test('a client that leaves during an upload is refused, and nothing is logged as a fault of the service', async () => {
  const log: string[] = [];
  const handleStructuredLogs = ({ message }: { readonly message: string }) => void log.push(message);
  const { worker, send } = await open(1, { ...scriptOf(bundle), handleStructuredLogs });
  expect((await send('PUT', '/left')).status).toBe(200);
  const { host, hostname, port } = await worker.ready;
  const signed = signer({ ...testCredentials.root, host }).request({
    method: 'PUT',
    path: '/left/k',
    body: randomBytes(100_000),
    payload: 'unsigned',
  });
  const upload = request({ hostname, port, ...signed, path: signed.target, headers: signed.headers.flat() });
  upload.on('error', () => {});
  upload.write(randomBytes(50_000), () => setImmediate(() => upload.destroy()));
  await vi.waitFor(() => expect(log.join('\n')).toContain('"operation":"PutObject"'), patience);
  const [level, code] = ['level', 'code'].map(
    (name) => new RegExp(`"${name}":"(.*?)"`).exec(log.join())?.[1],
  );
  expect([level, code]).toEqual(['INFO', 'IncompleteBody']);
  expect((await send('GET', '/left/k')).status).toBe(404);
});

describe('when R2 fails', () => {
  const openBreaking = async () => {
    const contents = await bundleWorker(join(import.meta.dirname, 'failing-bucket.ts'));
    const worker = await start({ ...scriptOf(contents), ...durableBindings });
    const breakR2 = (...calls: string[]) => worker.dispatchFetch(`http://x/?break-r2=${calls.join()}`);
    return { send: await clientOf(worker), breakR2 };
  };

  test('writes and reads are answered 503, and nothing is changed', async () => {
    const { send, breakR2 } = await openBreaking();
    await send('PUT', '/faults');
    expect((await send('PUT', '/faults/k', { body: 'kept' })).status).toBe(200);
    await breakR2('put');
    const refused = await send('PUT', '/faults/k', { body: 'new' });
    expect([refused.status, refused.text.includes('10001')]).toEqual([503, false]);
    expect((await send('PUT', '/faults/other', { body: 'new' })).status).toBe(503);
    expect((await send('GET', '/faults/k')).text).toBe('kept');
    await breakR2('get');
    const unread = await send('GET', '/faults/k').catch(() => undefined);
    // The headers may have been sent already: then the connection breaks.
    expect(unread === undefined || unread.status === 503).toBe(true);
    await breakR2('none');
    expect((await send('GET', '/faults/k')).text).toBe('kept');
    expect((await send('GET', '/faults/other')).status).toBe(404);
    expect((await send('PUT', '/faults/other', { body: 'later' })).status).toBe(200);
  });
});

describe('with the metadata in four objects', () => {
  const openBreaking = async () => {
    const contents = await bundleWorker(join(import.meta.dirname, 'failing-shards.ts'));
    const { worker, send } = await open(4, scriptOf(contents));
    const breakShards = (fault: string, share = 1) =>
      worker.dispatchFetch(`http://x/?break-shards=${fault}&share=${share}`);
    const countSent = async () => Number(await (await breakShards('sent')).text());
    // The cast: its types need those of Cloudflare.
    const bucket = (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket;
    const stored = async () => (await bucket.list({ prefix: '' })).objects.length;
    return { worker, send, breakShards, countSent, stored };
  };
  test.each(['refuse', 'lose', 'evict', 'evict-late'])(
    'usage, the audit log and the deletion queue are complete after an object failed (%s) between a commit and its side changes',
    async (fault) => {
      const { send, breakShards, countSent, stored } = await openBreaking();
      expect((await send('PUT', '/broken')).status).toBe(200);
      const put = async (key: string): Promise<void> => {
        const { status, text } = await send('PUT', `/broken/${key}`, { body: 'first' });
        expect(status, `${key}: ${text}`).toBe(200);
      };
      let names = 0;
      /** A key with a first version and an earlier one. By chance all rows of a key are in one object: such a one sends nothing, and is left. */
      const drawKey = async (): Promise<string> => {
        for (;;) {
          const key = `key-${names++}`;
          await put(key);
          const before = await countSent();
          await put(key);
          if ((await countSent()) > before) return key;
          expect((await send('DELETE', `/broken/${key}`)).status).toBe(204);
        }
      };
      /** The keys with what is read of them after the fault. */
      const breakWrites = async (): Promise<readonly (readonly [string, string])[]> => {
        const keys = [await drawKey(), await drawKey(), await drawKey()];
        await breakShards(fault);
        const replies = await Promise.all(
          keys.map((key) => send('PUT', `/broken/${key}`, { body: `the second ${key}` })),
        );
        // By chance this write of a key may have all its rows in one object, so that it sends nothing, and succeeds.
        const statuses = replies.map(({ status }) => (status === 200 ? 200 : 503));
        expect(statuses).toContain(503);
        expect(
          replies.map(({ status }) => status),
          replies.map(({ text }) => text).join('\n'),
        ).toEqual(statuses);
        await breakShards('none');
        return Promise.all(
          keys.map(async (key, n) => {
            const { status, text } = await send('GET', `/broken/${key}`);
            expect(status, `${key}: ${text}`).toBe(200);
            if (statuses[n] === 200) expect(text).toBe(`the second ${key}`);
            return [key, text] as const;
          }),
        );
      };
      const found = [...(await breakWrites())];
      // A commit that an evicted object had not stored is lost with its answer. One that finds side changes unsent, which may be those of
      // a worker, is refused; then others are tried.
      const isSecond = ([, text]: readonly [string, string]): boolean => text.startsWith('the second');
      for (let turn = 1; fault !== 'evict' && turn < 8 && !found.some(isSecond); turn += 1)
        found.push(...(await breakWrites()));
      const second = found.filter(isSecond);
      const first = found.filter(([, text]) => text === 'first');
      expect(first.length + second.length).toBe(found.length);
      if (fault !== 'evict') expect(second.length).toBeGreaterThan(0);
      const bytes = found.reduce((sum, [, text]) => sum + text.length, 0);
      expect(await askAdmin(send, 'buckets/broken')).toMatchObject({ objects: found.length, bytes });
      const audited = await auditedWrites(send, 'broken');
      for (const [key] of second) expect(audited.get(key)).toHaveLength(3);
      // The first versions are in the deletion queue of the commits; the sweep finds the bytes of those that were lost, after 5 minutes.
      const most = found.length + first.length;
      await vi.waitFor(async () => expect(await stored()).toBeLessThanOrEqual(most), patience);
      for (const [key, text] of found) expect((await send('GET', `/broken/${key}`)).text).toBe(text);
    },
  );

  test('under objects that fail at any time, what a bucket lists, its usage and the audit log agree', async () => {
    const { send, breakShards } = await openBreaking();
    expect((await send('PUT', '/chaos')).status).toBe(200);
    const sizes = new Map<string, number>();
    const answered: string[] = [];
    const writer = async (name: string): Promise<void> => {
      for (let turn = 0; turn < 25; turn += 1) {
        const [key, size] = [`${name}-${turn}`, 100 + turn];
        sizes.set(key, size);
        const reply = await send('PUT', `/chaos/${key}`, { body: Buffer.alloc(size, 'x') }).catch(
          () => undefined,
        );
        if (reply?.status === 200) answered.push(key);
      }
    };
    const ended = Promise.all(['a', 'b', 'c', 'd'].map(writer));
    let isOver = false;
    void ended.finally(() => (isOver = true));
    for (let turn = 0; !isOver; turn += 1) {
      await breakShards(['refuse', 'evict', 'lose', 'evict-late', 'none'][turn % 5] as string, 0.2);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await ended;
    await breakShards('none');
    const listed = await send('GET', '/chaos?list-type=2');
    const keys = [...listed.text.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key = '']) => key).sort();
    expect(keys).toEqual(expect.arrayContaining(answered));
    expect(answered.length).toBeGreaterThan(20);
    for (const key of keys) expect((await send('GET', `/chaos/${key}`)).bytes.length).toBe(sizes.get(key));
    const bytes = keys.reduce((sum, key) => sum + (sizes.get(key) ?? 0), 0);
    expect(await askAdmin(send, 'buckets/chaos')).toMatchObject({ objects: keys.length, bytes });
    const audited = await auditedWrites(send, 'chaos');
    for (const key of keys) expect(audited.get(key), key).toHaveLength(1);
    for (const key of answered) expect(audited.get(key), key).toEqual([200]);
  });

  test.each([
    ['more', 4, 8],
    ['fewer', 4, 2],
    ['one', 4, 1],
    ['several in place of one', 1, 4],
  ])(
    'another number of objects (%s) is refused, and with the former one everything is there',
    async (_, first, second) => {
      const { worker, send } = await open(first);
      await send('PUT', '/kept');
      expect((await send('PUT', '/kept/k', { body: 'kept' })).status).toBe(200);
      await stop(worker);
      const log: string[] = [];
      const logging = ({ message }: { readonly message: string }) => void log.push(message);
      const other = await open(second, { ...scriptOf(bundle), handleStructuredLogs: logging });
      for (let turn = 0; turn < 20; turn += 1) {
        expect((await other.send('GET', `/kept/k?turn=${turn}`)).status).toBe(500);
        expect((await other.send('PUT', `/kept/k${turn}`, { body: 'new' })).status).toBe(500);
      }
      const both = new RegExp(`are in ${first} objects .* of ${second}\\. SLUICE_SHARDS cannot be changed`);
      expect(log.join()).toMatch(both);
      await stop(other.worker);
      const again = await open(first);
      expect((await again.send('GET', '/kept/k')).text).toBe('kept');
      expect((await again.send('GET', '/kept?list-type=2')).text).toContain('<KeyCount>1</KeyCount>');
    },
  );
});

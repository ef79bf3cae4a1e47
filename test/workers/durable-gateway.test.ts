/** The durable gateway in workerd, under miniflare with persistence: restarts, isolates that race, errors of R2, and the workers. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { globalAgent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Miniflare, type MiniflareOptions } from 'miniflare';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { R2Bucket } from '../../src/backends/data/r2.ts';
import { type Answer, type Send, sender } from '../runtimes/client.ts';
import { durableBindings, workerdEntry, workerdFlags } from '../runtimes/workerd.ts';
import { testCredentials } from '../support/server.ts';
import { bundleWorker } from './bundle.ts';

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

const scriptOf = (contents: string) => ({
  modules: [{ type: 'ESModule' as const, path: 'sluice.js', contents }],
  ...workerdFlags,
});

async function start(options: MiniflareOptions): Promise<Miniflare> {
  const persist = { r2Persist: join(directory, 'r2'), durableObjectsPersist: join(directory, 'objects') };
  const worker = new Miniflare({ ...persist, handleStructuredLogs: () => {}, ...options });
  running.push(worker);
  await worker.ready;
  return worker;
}

/** A connection that was idle for some seconds may be closed when it is used again. */
const isClosed = (cause: unknown): boolean =>
  ['ECONNRESET', 'EPIPE'].includes(String((cause as { readonly code?: unknown }).code));

async function sendTo(worker: Miniflare): Promise<Send> {
  const send = sender({ url: (await worker.ready).origin, ...testCredentials.root });
  return async (...request) => {
    try {
      return await send(...request);
    } catch (cause) {
      if (!isClosed(cause)) throw cause;
      return send(...request);
    }
  };
}

async function stop(worker: Miniflare): Promise<void> {
  running.splice(running.indexOf(worker), 1);
  await worker.dispose();
}

const open = async (): Promise<{ readonly worker: Miniflare; readonly send: Send }> => {
  const worker = await start({ ...scriptOf(bundle), ...durableBindings });
  return { worker, send: await sendTo(worker) };
};

const patience = { timeout: 60_000, interval: 250 };

test('what was answered 200 is there after a restart in the middle of writes, and nothing is there by half', async () => {
  const first = await open();
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
  const { send } = await open();
  for (const [key, body] of sent) {
    const reply = await send('GET', `/restart/${key}`);
    if (acknowledged.includes(key)) expect(reply.status, key).toBe(200);
    else expect([200, 404], key).toContain(reply.status);
    if (reply.status === 200) expect(reply.bytes.equals(body), key).toBe(true);
  }
  const listed = await send('GET', '/restart?list-type=2');
  const keys = [...listed.text.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key]) => key);
  expect(keys).toEqual(expect.arrayContaining(acknowledged));
});

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

test('PutObject with If-None-Match: * succeeds for exactly one of 20 writers in two isolates', async () => {
  const { bindings, r2Buckets, durableObjects } = durableBindings;
  const other = { SLUICE: { className: 'SluiceMetadata', scriptName: 'one', useSQLite: true } };
  const worker = await start({
    workers: [
      { name: 'one', ...scriptOf(bundle), bindings, r2Buckets, durableObjects, unsafeDirectSockets: [{}] },
      {
        name: 'two',
        ...scriptOf(bundle),
        bindings,
        r2Buckets,
        durableObjects: other,
        unsafeDirectSockets: [{}],
      },
    ],
  } as MiniflareOptions);
  const sends = await Promise.all(
    ['one', 'two'].map(async (name) => {
      const { origin: url } = await worker.unsafeGetDirectURL(name);
      return sender({ url, ...testCredentials.root });
    }),
  );
  const [one, two] = sends as [Send, Send];
  expect((await one('PUT', '/race')).status).toBe(200);
  for (let round = 0; round < 5; round += 1) {
    // A write that met a connection which was closed meanwhile could not be sent again: it may have applied.
    globalAgent.destroy();
    const bodies = Array.from({ length: 20 }, (_, writer) => `round ${round}, writer ${writer}`);
    const replies = await Promise.all(
      bodies.map((body, writer) =>
        (writer % 2 === 0 ? one : two)('PUT', `/race/k${round}`, { body, headers: { 'if-none-match': '*' } }),
      ),
    );
    const winners = replies.flatMap(({ status }, writer) => (status === 200 ? [writer] : []));
    expect(winners, replies.map(({ status }) => status).join()).toHaveLength(1);
    expect(replies.filter(({ status }) => status === 412 || status === 409)).toHaveLength(19);
    const body = bodies[winners[0] as number] as string;
    for (const send of sends) expect((await send('GET', `/race/k${round}`)).text).toBe(body);
  }
});

test('gc of an alarm removes the bytes of what was overwritten and deleted', async () => {
  const { worker, send } = await open();
  // The cast: its types need those of Cloudflare.
  const bucket = (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket;
  const stored = async () => (await bucket.list({ prefix: '' })).objects.length;
  await send('PUT', '/collected');
  for (const turn of [1, 2, 3]) await send('PUT', '/collected/k', { body: `version ${turn}` });
  await send('PUT', '/collected/gone', { body: randomBytes(5_000_000) });
  expect((await send('DELETE', '/collected/gone')).status).toBe(204);
  await vi.waitFor(async () => expect(await stored()).toBe(1), patience);
  expect((await send('GET', '/collected/k')).text).toBe('version 3');
});

describe('when R2 fails', () => {
  const openBreaking = async () => {
    const contents = await bundleWorker(join(import.meta.dirname, 'failing-bucket.ts'));
    const worker = await start({ ...scriptOf(contents), ...durableBindings });
    const breakR2 = (...calls: string[]) => worker.dispatchFetch(`http://x/?break-r2=${calls.join()}`);
    return { send: await sendTo(worker), breakR2 };
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

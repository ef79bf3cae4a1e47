/** The hook `onEvent` of `openGateway`: changes of objects, in the process of the application. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import {
  type AccessKey,
  directory,
  memory,
  type ObjectEvent,
  type OpenGateway,
  type OpenOptions,
  openGateway,
  type Telemetry,
} from '../../src/mod.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { signer, toRequest } from '../support/sign.ts';

const me: AccessKey = {
  accessKey: 'ACCESSKEY',
  secretKey: 'secret-of-me',
  owner: 'me',
  root: true,
  operator: true,
};
const key = signer({ ...me, host: 'app.example.com' });
const patience = { timeout: 180_000, interval: 20 };

type Options = Partial<Omit<OpenOptions, 'credentials'>>;
const open = (options: Options): Promise<OpenGateway> =>
  openGateway({ credentials: [me], storage: memory(), notifyInterval: '10ms', ...options });
const send = (gateway: OpenGateway, spec: Parameters<typeof key.request>[0]): Promise<Response> =>
  gateway.fetch(toRequest(key.request(spec)), { remote: '192.0.2.7' });
const put = async (gateway: OpenGateway, path: string, body = ''): Promise<void> =>
  expect((await send(gateway, { method: 'PUT', path, body })).status).toBe(200);

describe.each([
  ['at-least-once', { workers: ['notify'] }],
  ['best-effort', { workers: false }],
] as const)('events %s', (eventDelivery, options) => {
  test('tell of objects that were created and removed, in every bucket', async () => {
    const events: ObjectEvent[] = [];
    await using gateway = await open({ ...options, onEvent: (event) => void events.push(event) });
    for (const bucket of ['photos', 'texts']) await put(gateway, `/${bucket}`);
    await put(gateway, '/photos/%C3%A4%20b%2Bc', 'meow');
    await vi.waitFor(() => expect(events).toHaveLength(1), patience);
    expect((await send(gateway, { method: 'DELETE', path: '/photos/%C3%A4%20b%2Bc' })).status).toBe(204);
    await put(gateway, '/texts/a');
    await vi.waitFor(() => expect(events).toHaveLength(3), patience);
    expect(events[0]).toEqual({
      id: expect.any(String),
      name: 'ObjectCreated:Put',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      bucket: 'photos',
      account: 'me',
      key: 'ä b+c',
      size: 4,
      etag: '4a4be40c96ac6314e91d93f38043a634',
      sequencer: expect.any(String),
      principal: 'me',
      remote: '192.0.2.7',
      requestId: expect.any(String),
    });
    expect(new Set(events.map(({ name, bucket, key: of }) => `${name} ${bucket}/${of}`))).toEqual(
      new Set([
        'ObjectCreated:Put photos/ä b+c',
        'ObjectRemoved:Delete photos/ä b+c',
        'ObjectCreated:Put texts/a',
      ]),
    );
  });

  test('a handler that throws or hangs for one bucket delays no other and fails no request', async () => {
    const events: string[] = [];
    await using gateway = await open({
      ...options,
      eventDelivery,
      notifyTimeout: '200ms',
      onEvent: async ({ bucket, key: of }) => {
        if (bucket === 'throws') throw new Error('no');
        if (bucket === 'hangs') await new Promise(() => {});
        events.push(`${bucket}/${of}`);
      },
    });
    const buckets = ['throws', 'hangs', 'works'];
    for (const bucket of buckets) await put(gateway, `/${bucket}`);
    for (let n = 0; n < 20; n += 1) for (const bucket of buckets) await put(gateway, `/${bucket}/${n}`);
    await vi.waitFor(() => expect(new Set(events).size).toBe(20), patience);
    expect(events.every((event) => event.startsWith('works/'))).toBe(true);
  });
});

test('what the handler refuses at first is delivered again with the same id, and later changes of the key after it', async () => {
  const tries: string[] = [];
  const names: string[] = [];
  await using gateway = await open({
    workers: ['notify'],
    onEvent: ({ id, name }) => {
      tries.push(id);
      if (tries.length < 3) throw new Error('the database is away');
      names.push(name);
    },
  });
  await put(gateway, '/photos');
  await put(gateway, '/photos/cat', 'meow');
  expect((await send(gateway, { method: 'DELETE', path: '/photos/cat' })).status).toBe(204);
  await vi.waitFor(() => expect(names).toEqual(['ObjectCreated:Put', 'ObjectRemoved:Delete']), patience);
  expect(tries[0]).toBe(tries[2]);
});

test('events that a stop left behind are delivered after the next start', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-events-'));
  const options = { storage: directory(join(folder, 'data')), eventDelivery: 'at-least-once' } as const;
  try {
    {
      await using gateway = await open({ ...options, workers: false, onEvent: () => {} });
      await put(gateway, '/photos');
      await put(gateway, '/photos/cat', 'meow');
    }
    const keys: string[] = [];
    await using _ = await open({
      ...options,
      workers: ['notify'],
      onEvent: (event) => void keys.push(event.key),
    });
    await vi.waitFor(() => expect(keys).toEqual(['cat']), patience);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test('at best effort a handler that throws is logged, and a refused request tells of nothing', async () => {
  const lines: (readonly unknown[])[] = [];
  const log: Telemetry['log'] = (level, message, fields) => void lines.push([level, message, fields]);
  const seen: string[] = [];
  await using gateway = await open({
    workers: false,
    telemetry: { ...silentTelemetry, log },
    onEvent: (event) => {
      seen.push(event.key);
      throw new Error('no');
    },
  });
  await put(gateway, '/photos');
  await put(gateway, '/photos/cat', 'meow');
  const again = { method: 'PUT', path: '/photos/cat', body: 'x', headers: { 'if-none-match': '*' } } as const;
  expect((await send(gateway, again)).status).toBe(412);
  await vi.waitFor(
    () => expect(lines).toContainEqual(['WARN', 'onEvent failed', expect.objectContaining({ key: 'cat' })]),
    patience,
  );
  expect(seen).toEqual(['cat']);
});

test('every key of DeleteObjects and the rules of a lifecycle tell of themselves', async () => {
  const events: string[] = [];
  await using gateway = await open({
    workers: ['notify', 'lifecycle'],
    lifecycleInterval: '50ms',
    onEvent: ({ name, key: of }) => void events.push(`${name} ${of}`),
  });
  await put(gateway, '/photos');
  for (const name of ['a', 'b', 'old']) await put(gateway, `/photos/${name}`);
  const body = '<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>';
  await send(gateway, { method: 'POST', path: '/photos', query: { delete: '' }, body });
  const rule = `<LifecycleConfiguration><Rule><ID>x</ID><Status>Enabled</Status><Filter><Prefix>old</Prefix></Filter><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>`;
  const set = { method: 'PUT', path: '/photos', query: { lifecycle: '' }, body: rule } as const;
  expect((await send(gateway, set)).status).toBe(200);
  const expected = ['ObjectRemoved:Delete a', 'ObjectRemoved:Delete b', 'LifecycleExpiration:Delete old'];
  await vi.waitFor(() => expect(events).toEqual(expect.arrayContaining(expected)), patience);
});

test('buckets of the application are no labels of metrics', async () => {
  const labels = new Set<string>();
  const count: Telemetry['count'] = (name, of) => {
    if (name.startsWith('svc_notify_')) labels.add(`${name} ${JSON.stringify(of)}`);
  };
  const replace: Telemetry['replace'] = (name, samples) => {
    if (name === 'svc_notify_refused_objects')
      for (const [of, value] of samples) labels.add(`${name} ${JSON.stringify(of)} ${value}`);
  };
  const taken: string[] = [];
  await using gateway = await open({
    workers: ['notify'],
    telemetry: { ...silentTelemetry, count, replace },
    onEvent({ bucket, key: of }) {
      if (of === 'bad') throw new Error('no');
      taken.push(bucket);
    },
  });
  for (const bucket of ['one', 'two']) {
    await put(gateway, `/${bucket}`);
    for (const name of ['good', 'bad']) await put(gateway, `/${bucket}/${name}`);
  }
  const application = JSON.stringify({ target: '@application' });
  await vi.waitFor(() => {
    expect(new Set(taken)).toEqual(new Set(['one', 'two']));
    expect(labels).toContain(`svc_notify_refused_objects ${application} 2`);
  }, patience);
  const isByBucket = (label: string): boolean => label.includes('@application/');
  expect([...labels].filter(isByBucket)).toEqual([]);
  expect(labels).toContain(`svc_notify_delivered_total ${application}`);
});

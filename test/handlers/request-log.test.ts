/** Which requests have a line in the log, and how repeats are counted. */
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/ports/clock.ts';
import { type Fields, silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';
import { foldRepeats } from '../../src/telemetry/log.ts';
import { browsingTracer } from '../support/exporting-tracer.ts';
import { type GatewayWorldOptions, openGateway } from '../support/gateway.ts';

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Fields;
}

async function openLogged(options: GatewayWorldOptions = {}) {
  const lines: Line[] = [];
  const ends: (() => void)[] = [];
  const log: Telemetry['log'] = foldRepeats(
    (level, message, fields = {}) => void (level !== 'DEBUG' && lines.push({ level, message, fields })),
    (_, act) => void ends.push(act),
  );
  const world = await openGateway({ ...options, telemetry: { ...silentTelemetry, log } });
  return Object.assign(world, {
    lines,
    endMinute: () => {
      for (const end of ends.splice(0)) end();
    },
  });
}

function openFolded() {
  const lines: Line[] = [];
  const log = foldRepeats(
    (level, message, fields = {}) => void lines.push({ level, message, fields }),
    () => {},
  );
  return { lines, log };
}

describe('a refused request', () => {
  test('has one line at INFO, with its request id, code and caller', async () => {
    await using world = await openLogged();
    await world.client.put('/bucket');
    const missing = await world.client.get('/bucket/key');
    expect(world.lines).toEqual([
      {
        level: 'INFO',
        message: 'request refused',
        fields: expect.objectContaining({
          request_id: missing.header('*-request-id'),
          operation: 'GetObject',
          method: 'GET',
          path: '/bucket/key',
          status: 404,
          code: 'NoSuchKey',
          access_key: 'KEY-alice',
        }),
      },
    ]);
  });

  test('that its caller repeats within a minute is counted, and the count is logged at its end', async () => {
    await using world = await openLogged();
    await world.client.put('/bucket');
    for (let n = 0; n < 50; n += 1) await world.client.get(`/bucket/key-${n}`);
    await world.bob.get('/bucket/key');
    expect(world.lines.map(({ fields }) => [fields['code'], fields['access_key']])).toEqual([
      ['NoSuchKey', 'KEY-alice'],
      ['AccessDenied', 'KEY-bob'],
    ]);
    world.endMinute();
    expect(world.lines.slice(2).map(({ fields }) => [fields['code'], fields['repeated']])).toEqual([
      ['NoSuchKey', 49],
    ]);
  });

  test('of more callers than are remembered writes one line for all of them', async () => {
    const { lines, log } = openFolded();
    for (let n = 0; n < 5_000; n += 1)
      log('INFO', 'request refused', { request_id: `${n}` }, `AccessDenied 10.0.${n}`);
    // Three times as many as are free.
    expect(lines).toHaveLength(751);
  });

  test('of a tenant that makes up thousands of kinds takes the lines of no other caller, and unfolds no failure', async () => {
    await using world = await openLogged();
    const refusedAs = (n: number) => ({ operation: `made-up-${n}` });
    for (let n = 0; n < 1_600; n += 32)
      await world.bob.post('/admin/v1/batch', {
        body: JSON.stringify({ reads: Array.from({ length: 32 }, (_, i) => refusedAs(n + i)) }),
      });
    expect(world.lines).toHaveLength(751);
    world.lines.length = 0;
    await world.client.put('/bucket');
    for (let n = 0; n < 3; n += 1) {
      await world.client.get('/bucket/key');
      await world.anonymous.get('/bucket/key');
      world.context.telemetry.log('WARN', 'a worker failed', { cause: new Error('away') });
    }
    expect(world.lines.map(({ message, fields }) => [message, fields['code'], fields['account']])).toEqual([
      ['request refused', 'NoSuchKey', 'alice-account'],
      ['request refused', 'AccessDenied', undefined],
      ['a worker failed', undefined, undefined],
    ]);
  });

  test('by a tenant with thousands of temporary keys takes the lines of no other caller', () => {
    const { lines, log } = openFolded();
    for (let n = 0; n < 5_000; n += 1)
      log('INFO', 'request refused', { request_id: `${n}` }, `AccessDenied ASIA${n}`, 'bob-account');
    const counts = ['alice-account', 'anonymous callers', 'bob-account'].map((account) => {
      lines.length = 0;
      for (let n = 0; n < 20; n += 1)
        log('INFO', 'request refused', { request_id: `${n}` }, `NoSuchKey ${n}`, account);
      return lines.length;
    });
    expect(counts).toEqual([20, 20, 0]);
  });
});

test('a failed request has one line at ERROR with its cause, and repeats are counted over all callers', async () => {
  await using world = await openLogged({
    wrap: (context) => ({
      ...context,
      metadata: { ...context.metadata, get: () => Promise.reject(new Error('the disk is on fire')) },
    }),
  });
  const failed = await world.client.get('/bucket/key');
  await world.bob.get('/bucket/key');
  expect(failed.status).toBe(500);
  const lines = world.lines.filter(({ level }) => level === 'ERROR');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({
    level: 'ERROR',
    message: 'request failed',
    fields: {
      request_id: failed.header('*-request-id'),
      code: 'InternalError',
      cause: { message: 'the disk is on fire' },
    },
  });
});

describe('a request that takes longer than SVC_SLOW_MS', () => {
  /** Time passes only where a test says so: a busy machine makes no request slow. */
  const standingClock = () => {
    let ms = 0;
    const pass = (more: number): void => {
      ms += more;
    };
    return { ...systemClock, elapsed: () => ms, pass };
  };
  const slow = (
    settings: GatewayWorldOptions['settings'] = {},
    clock = standingClock(),
  ): GatewayWorldOptions => ({
    clock,
    settings: { SVC_SLOW_MS: '30', ...settings },
    wrap: (context) => {
      const { commit } = context.metadata;
      const tracer = browsingTracer({ clock });
      return {
        ...context,
        tracer,
        metadata: {
          ...context.metadata,
          async commit(at, changes, options) {
            // Within the call, whose begin is noted when it has returned its promise.
            await systemClock.sleep(1);
            if (at.table.name === 'objects') clock.pass(40);
            return commit(at, changes, options);
          },
        },
      };
    },
  });

  test('has a line at WARN with its slowest backend calls, the slowest first', async () => {
    await using world = await openLogged(slow());
    await world.client.put('/bucket');
    const put = await world.client.put('/bucket/key', { body: 'x' });
    expect(world.lines).toHaveLength(1);
    const [{ level, message, fields }] = world.lines as [Line];
    expect([level, message]).toEqual(['WARN', 'slow request']);
    expect(fields).toMatchObject({
      request_id: put.header('*-request-id'),
      operation: 'PutObject',
      status: 200,
    });
    expect(fields['duration_ms']).toBeGreaterThanOrEqual(30);
    expect((fields['slowest'] as string[])[0]).toMatch(/^metadata\.commit objects \d+(\.\d+)? ms$/);
  });

  test('has none with SVC_SLOW_MS=0, nor where only its client was slow', async () => {
    await using off = await openLogged(slow({ SVC_SLOW_MS: '0' }));
    await off.client.put('/bucket');
    await off.client.put('/bucket/key', { body: 'x' });
    expect(off.lines).toEqual([]);
    const clock = standingClock();
    await using world = await openLogged({ clock, settings: { SVC_SLOW_MS: '100' } });
    await world.client.put('/bucket');
    const arriving = async function* (body: Uint8Array): AsyncGenerator<Uint8Array> {
      clock.pass(150);
      yield body;
    };
    const put = await world.client.put('/bucket/key', { body: 'x', arriving });
    expect(put.status).toBe(200);
    expect(world.lines).toEqual([]);
  });
});

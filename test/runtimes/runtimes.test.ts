/** Every supported runtime, one row each. */
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  attributeOf,
  type Collector,
  noCollector,
  type ReceivedSpan,
  startCollector,
} from '../support/engines/otelcol.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { sender } from './client.ts';
import { cliPath } from './command.ts';
import { install, runtimes } from './installed.ts';
import { smoke } from './smoke.ts';
import { startWorkerd, type Workerd } from './workerd.ts';

install();

const patience = { timeout: 180_000, interval: 100 };

const probe = join(import.meta.dirname, 'event-loop-probe.ts');

for (const [name, runtime] of Object.entries(runtimes)) {
  test(`${name} measures how long its event loop was blocked, and only once`, () => {
    const [command, ...args] = runtime;
    const measured = JSON.parse(execFileSync(command, [...args, probe], { encoding: 'utf8' }));
    const { free, blocked, after } = measured as Readonly<Record<'free' | 'blocked' | 'after', number>>;
    expect(blocked).toBeGreaterThan(1.9);
    expect(Math.max(free, after)).toBeLessThan(blocked);
    expect(Math.min(free, after)).toBeGreaterThanOrEqual(0);
  });

  test(`${name}: sluice admin says that no gateway answers, and exits with 3`, () => {
    const [command, ...args] = runtime;
    const env = {
      PATH: process.env['PATH'],
      SLUICE_ENDPOINT: 'http://127.0.0.1:9',
      SLUICE_ACCESS_KEY: 'ACCESS',
      SLUICE_SECRET_KEY: 'a-long-secret',
    };
    const { status, stderr } = spawnSync(command, [...args, cliPath, 'admin', 'workers'], {
      env,
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([
      3,
      expect.stringMatching(/^sluice: the gateway cannot be reached: .+\n$/),
    ]);
  });

  for (const [backends, dataDir] of [
    ['embedded and file', undefined],
    ['memory', 'memory'],
  ] as const) {
    smoke({
      name: `${name}, ${backends}`,
      start: async () => {
        const server = await startServer({ runtime, ...(dataDir === undefined ? {} : { dataDir }) });
        return { ...server.credentials.root, url: server.url, stop: server.stop };
      },
    });
  }
}

describe.skipIf(noCollector !== undefined)('observability', () => {
  let collector: Collector;
  beforeAll(async () => {
    collector = await startCollector();
  });
  afterAll(() => collector?.[Symbol.asyncDispose]());

  // Node: traces.test.ts and observability.test.ts.
  test.each(['Bun', 'Deno'] as const)(
    '%s exports spans, obeys SIGUSR2 and writes a support bundle',
    async (name) => {
      const server = await startServer({
        runtime: runtimes[name],
        env: { SVC_PROCESSES: '1', SVC_TRACE_SAMPLE: '1', SVC_OTLP_ENDPOINT: collector.url },
      });
      try {
        const send = sender({ url: server.url, ...testCredentials.root });
        const bucket = name.toLowerCase();
        expect((await send('PUT', `/${bucket}`)).status).toBe(200);
        const isSent = (span: ReceivedSpan) =>
          span.name === 'S3.CreateBucket' && attributeOf(span, 'aws.s3.bucket') === bucket;
        await vi.waitFor(() => expect(collector.spans().some(isSent)).toBe(true), patience);
        server.process.kill('SIGUSR2');
        const level = async () => JSON.parse((await send('GET', '/admin/v1/log-level')).text);
        await vi.waitFor(async () => expect(await level()).toEqual({ level: 'DEBUG' }), patience);
        const { status, text } = await send('GET', '/admin/v1/support-bundle');
        expect([status, /^\{"missing"/m.test(text), text.includes('sluice-support/traces.json')]).toEqual([
          200,
          false,
          true,
        ]);
        expect(JSON.parse((await send('GET', '/readyz')).text)).toMatchObject({ ready: true, status: 'ok' });
      } finally {
        await server.stop();
      }
    },
  );
});

let workerd: Workerd | undefined;
smoke({
  name: 'workerd, memory',
  start: async () => {
    workerd = await startWorkerd();
    return workerd;
  },
  normalisesTargets: 'the runtime rewrites request.url',
  noMetrics: 'an isolate ends at any time, and nothing could scrape all of them',
});

smoke({
  name: 'workerd, Durable Object and R2',
  start: () => startWorkerd({ isDurable: true }),
  normalisesTargets: 'the runtime rewrites request.url',
  noMetrics: 'an isolate ends at any time, and nothing could scrape all of them',
});

test('workerd warns once that SVC_OTLP_ENDPOINT has no effect, and exports nothing', () => {
  const warned = workerd?.log().match(/"level":"WARN","message":"SVC_OTLP_ENDPOINT has no effect[^"]*"/g);
  expect(warned).toHaveLength(1);
  expect(workerd?.log()).not.toContain('spans were not exported');
});

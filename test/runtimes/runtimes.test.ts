/** Every supported runtime, one row each. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startServer } from '../support/server.ts';
import { install, runtimes } from './installed.ts';
import { smoke } from './smoke.ts';
import { startWorkerd, type Workerd } from './workerd.ts';

install();

const probe = join(import.meta.dirname, 'event-loop-probe.ts');

for (const [name, runtime] of Object.entries(runtimes)) {
  test(`${name} measures how long its event loop was blocked, and only once`, () => {
    const [command, ...args] = runtime;
    const measured = JSON.parse(execFileSync(command, [...args, probe], { encoding: 'utf8' }));
    const { free, blocked, after } = measured as Readonly<Record<'free' | 'blocked' | 'after', number>>;
    expect(blocked).toBeGreaterThan(0.25);
    expect(blocked).toBeLessThan(10);
    expect(Math.max(free, after)).toBeLessThan(blocked);
    expect(Math.min(free, after)).toBeGreaterThanOrEqual(0);
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

test('workerd warns once that SVC_OTLP_ENDPOINT has no effect, and exports nothing', () => {
  const warned = workerd?.log().match(/"level":"WARN","message":"SVC_OTLP_ENDPOINT has no effect[^"]*"/g);
  expect(warned).toHaveLength(1);
  expect(workerd?.log()).not.toContain('spans were not exported');
});

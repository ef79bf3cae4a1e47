/** Everything that a gateway writes down about its requests, and a search for secrets in all of it. */
import { expect } from 'vitest';
import { RecentLines } from '../../src/base/recent-entries.ts';
import type { Context } from '../../src/context.ts';
import type { LogLevel } from '../../src/ports/telemetry.ts';
import { describeSystems } from '../../src/runtime/processes/node-telemetry.ts';
import { configureLog, createLog } from '../../src/telemetry/log.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { toOtlp } from '../../src/telemetry/otlp.ts';
import { exportingTracer } from './exporting-tracer.ts';
import { type GatewayWorld, operator } from './gateway.ts';
import { auditRows } from './recorded.ts';

export type Secrets = Map<string, string | Uint8Array>;

/** The log is that of the process: one at a time. */
export function recordEverything(level: LogLevel = 'DEBUG') {
  const lines: string[] = [];
  const recent = new RecentLines();
  configureLog({
    level,
    write: (line) => {
      lines.push(line);
      recent.add(line, Date.now());
    },
  });
  const metrics = createMetricRegistry({ version: '1', runtime: 'node' });
  const { exported, tracer } = exportingTracer();
  const diagnostics = { version: '1', name: 'host:1', process: () => ({}), lines: recent };
  return {
    lines,
    exported,
    telemetry: { ...metrics, log: createLog() },
    /** The option `wrap` of a gateway. */
    wrap: (context: Context): Context => ({ ...context, tracer, diagnostics }),
    /** @returns the texts by the place where operators find them */
    async read(world: GatewayWorld): Promise<Readonly<Record<string, string>>> {
      const admin = world.as({ credential: operator });
      const answer = async (path: string): Promise<string> => {
        const { status, text } = await admin.get(`/admin/v1/${path}`);
        expect([path, status]).toEqual([path, 200]);
        return text;
      };
      return {
        settings: await answer('settings'),
        log: lines.join('\n'),
        traces: JSON.stringify(exported),
        otlp: toOtlp(exported, {
          resource: {},
          systems: describeSystems(world.context.config),
        }),
        browser: JSON.stringify(tracer.list({ max: 500 }).map(({ requestId }) => tracer.find(requestId, 20))),
        metrics: await metrics.metrics(),
        audit: JSON.stringify(await auditRows(world.context)),
        'audit records': await answer('audit?limit=1000'),
        'audit export': await answer('audit/export?format=jsonl'),
        'audit export for CloudTrail': await answer('audit/export?format=cloudtrail'),
        'audit export for OCSF': await answer('audit/export?format=ocsf'),
        'recent requests': await answer('requests?limit=1000'),
        'recent lines': await answer('logs?limit=1000'),
        'support bundle': await answer('support-bundle'),
      };
    },
  };
}

/** The forms in which a text may be written. */
const formsOf = (secret: string | Uint8Array): readonly string[] => {
  const bytes = Buffer.from(secret as string);
  const text = typeof secret === 'string' ? secret : bytes.toString('latin1');
  return [
    text,
    ...(typeof secret === 'string' ? [encodeURIComponent(secret)] : []),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ];
};

export function expectNoSecret(recorded: Readonly<Record<string, string>>, secrets: Secrets): void {
  for (const [place, text] of Object.entries(recorded)) expect(text.length, place).toBeGreaterThan(500);
  for (const [name, secret] of secrets) {
    expect(secret.length, name).toBeGreaterThan(7);
    for (const form of formsOf(secret))
      for (const [place, text] of Object.entries(recorded))
        expect(text.includes(form), `${name} is in ${place} as ${form.slice(0, 12)}…`).toBe(false);
  }
}

/**
 * `node bench/traces.ts [rounds]`: the CPU of a 4 KiB PUT and GET with metrics, without and with traces.
 * `node bench/traces.ts --socket [turns]`: that of a GET over a socket with the default backends, and that of a trace that records nothing.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createGateway } from '../src/admin-gateway.ts';
import { configWith } from '../src/config/read-config.ts';
import type { Config } from '../src/config.ts';
import type { Trace, Tracer } from '../src/ports/trace.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { compareRequestCpu, cpuConfig, credentials, defaultTracer } from './lib/request-cpu.ts';
import { compareSocketCpu } from './lib/socket-cpu.ts';

const { values, positionals } = parseArgs({
  options: { socket: { type: 'boolean', default: false } },
  allowPositionals: true,
});

const openContext = (config: Config) => compose(config, { credentials, telemetry: nodeTelemetry(config) });

/** The least that a record of each request can cost: a copy of the context, and calls that do nothing. */
const nothing: Trace = {
  traceId: '',
  traceparent: '',
  isSampled: false,
  stage() {},
  view: (ctx) => ({ ...ctx, trace: nothing }),
  slowestCalls: () => [],
  answered() {},
  end() {},
};
const emptyTracer: Tracer = { begin: () => nothing, list: () => [], find: () => [] };

if (values.socket) {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-traces-'));
  const config = configWith({
    SVC_DATA_DIR: directory,
    SVC_FSYNC: 'never',
    SVC_LISTEN: '127.0.0.1:0',
    SVC_LOG_LEVEL: 'WARN',
  });
  const { context, close } = await openContext(config);
  const tracer = defaultTracer(config) ?? emptyTracer;
  await compareSocketCpu(
    [
      ['without traces', createGateway({ ...context })],
      ['with traces', createGateway({ ...context, tracer })],
      ['with empty traces', createGateway({ ...context, tracer: emptyTracer })],
      ['without traces again', createGateway({ ...context })],
    ],
    { config, cycles: Number(positionals[0] ?? 300) },
  );
  await close();
  rmSync(directory, { recursive: true, force: true });
} else {
  const config = cpuConfig();
  const { context, close } = await openContext(config);
  const tracer = defaultTracer(config) ?? emptyTracer;
  await compareRequestCpu(
    [
      ['without traces', createGateway(context)],
      ['with traces', createGateway({ ...context, tracer })],
    ],
    Number(positionals[0] ?? 60),
  );
  await close();
}
process.exit(0);

/** `node bench/traces.ts [rounds]`: the CPU of a 4 KiB PUT and GET with metrics, without and with traces. */
import type { Context } from '../src/context.ts';
import { createGateway } from '../src/gateway.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { compareRequestCpu, cpuConfig, credentials, defaultTracer } from './lib/request-cpu.ts';

const config = cpuConfig();
const { context, close } = await compose(config, { credentials, telemetry: nodeTelemetry(config) });
const tracer = defaultTracer(config);
const traced: Context = tracer === undefined ? context : { ...context, tracer };

await compareRequestCpu(
  [
    ['without traces', createGateway(context)],
    ['with traces', createGateway(traced)],
  ],
  Number(process.argv[2] ?? 60),
);
await close();
process.exit(0);

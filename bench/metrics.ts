/** `node bench/metrics.ts [rounds]`: the CPU of a 4 KiB PUT and GET without telemetry, with metrics, and with metrics and traces. */
import { createGateway } from '../src/admin-gateway.ts';
import type { Gateway } from '../src/gateway.ts';
import { silentTelemetry, type Telemetry } from '../src/ports/telemetry.ts';
import type { Tracer } from '../src/ports/trace.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { compareRequestCpu, cpuConfig, credentials, defaultTracer } from './lib/request-cpu.ts';

const config = cpuConfig();

const open = async (telemetry: Telemetry, tracer?: Tracer): Promise<Gateway> => {
  const { context } = await compose(config, { credentials, telemetry, tracer });
  return createGateway(context);
};
const gateways: readonly (readonly [string, Gateway])[] = [
  ['without', await open(silentTelemetry)],
  ['metrics', await open(nodeTelemetry(config))],
  ['metrics and traces', await open(nodeTelemetry(config), defaultTracer(config))],
];

await compareRequestCpu(gateways, Number(process.argv[2] ?? 60));
process.exit(0);

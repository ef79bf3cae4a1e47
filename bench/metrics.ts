/**
 * `node bench/metrics.ts [rounds]`: the CPU of a 4 KiB PUT and GET without telemetry, with metrics, and with metrics and traces, through
 * `gateway.handle`, in turns within one process, where the load of a shared machine meets all alike. Neither the socket nor a disk is
 * included, so the ratios are upper bounds.
 */
import { configWith } from '../src/config/read/read-config.ts';
import { createGateway, type Gateway } from '../src/gateway.ts';
import { systemClock } from '../src/ports/clock.ts';
import { systemRandom } from '../src/ports/random.ts';
import { silentTelemetry, type Telemetry } from '../src/ports/telemetry.ts';
import type { Tracer } from '../src/ports/trace.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { createTracer } from '../src/telemetry/tracing/tracer.ts';
import { incomingOf } from './lib/incoming.ts';
import { benchCredential, Signer, sha256Of } from './lib/sign.ts';

const rounds = Number(process.argv[2] ?? 60);
const perRound = 1_000;
const body = new Uint8Array(4096).fill(3);
const signer = new Signer('localhost:9000');
const config = configWith({ SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop', SVC_LOG_LEVEL: 'WARN' });

const open = async (telemetry: Telemetry, tracer?: Tracer): Promise<Gateway> => {
  const { context } = await compose(config, { credentials: [benchCredential], telemetry, tracer });
  const gateway = createGateway(context);
  await gateway.handle(incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
  return gateway;
};
const tracer = createTracer({
  clock: systemClock,
  random: systemRandom(),
  process: 'bench:1',
  sample: config.SVC_TRACE_SAMPLE,
  browser: true,
});
const gateways: readonly (readonly [string, Gateway])[] = [
  ['without', await open(silentTelemetry)],
  ['metrics', await open(nodeTelemetry(config))],
  ['metrics and traces', await open(nodeTelemetry(config), tracer)],
];

const put = { method: 'PUT', path: '/bench/object', payloadHash: sha256Of(body), length: body.length };
const heads = { PUT: signer.header(put), GET: signer.header({ method: 'GET', path: '/bench/object' }) };

async function ask(gateway: Gateway, method: keyof typeof heads): Promise<void> {
  const reply = await gateway.handle(incomingOf(heads[method], method === 'PUT' ? body : undefined));
  if (reply.status >= 300) throw new Error(`${method} answered ${reply.status}`);
  if (typeof reply.body === 'object' && Symbol.asyncIterator in reply.body) for await (const _ of reply.body);
}

async function microsOf(gateway: Gateway, method: keyof typeof heads): Promise<number> {
  const before = process.cpuUsage();
  for (let n = 0; n < perRound; n += 1) await ask(gateway, method);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / perRound;
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

for (const method of ['PUT', 'GET'] as const) {
  const micros = gateways.map((): number[] => []);
  for (let round = -5; round < rounds; round += 1) {
    for (let n = 0; n < gateways.length; n += 1) {
      // Each begins as often as the others.
      const at = (n + Math.max(0, round)) % gateways.length;
      const took = await microsOf((gateways[at] as (typeof gateways)[number])[1], method);
      if (round >= 0) micros[at]?.push(took);
    }
  }
  for (const [at, [name]] of gateways.entries()) {
    const ratio = median((micros[at] ?? []).map((value, n) => value / (micros[0]?.[n] ?? value)));
    process.stdout.write(
      `${method} 4 KiB, ${name}: ${median(micros[at] ?? []).toFixed(1)} µs, ${ratio.toFixed(3)}×\n`,
    );
  }
}
process.exit(0);

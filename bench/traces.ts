/**
 * `node bench/traces.ts`: the CPU of a 4 KiB PUT and GET with and without traces, through `gateway.handle`, in turns within one
 * process, where the load of a shared machine meets both alike. The socket is not included, so the ratio is an upper bound.
 */
import { configWith } from '../src/config/read/read-config.ts';
import type { Context } from '../src/context.ts';
import { createGateway, type Gateway } from '../src/gateway.ts';
import { systemClock } from '../src/ports/clock.ts';
import { systemRandom } from '../src/ports/random.ts';
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
const telemetry = nodeTelemetry(config);
const { context, close } = await compose(config, { credentials: [benchCredential], telemetry });
const tracer = createTracer({
  clock: systemClock,
  random: systemRandom(),
  process: 'bench:1',
  sample: config.SVC_TRACE_SAMPLE,
  browser: true,
});
const traced: Context = tracer === undefined ? context : { ...context, tracer };

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

const without = createGateway(context);
const with_ = createGateway(traced);
await without.handle(incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
for (const method of ['PUT', 'GET'] as const) {
  const off: number[] = [];
  const on: number[] = [];
  for (let round = -5; round < rounds; round += 1) {
    const [a, b] =
      round % 2 === 0
        ? [await microsOf(without, method), await microsOf(with_, method)]
        : [await microsOf(with_, method), await microsOf(without, method)].reverse();
    if (round < 0) continue;
    off.push(a as number);
    on.push(b as number);
  }
  const ratio = median(on.map((value, n) => value / (off[n] as number)));
  process.stdout.write(
    `${method} 4 KiB: ${median(off).toFixed(1)} µs without, ${median(on).toFixed(1)} µs with traces: ${ratio.toFixed(3)}×\n`,
  );
}
await close();
process.exit(0);

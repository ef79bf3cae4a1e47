/**
 * Compares the CPU of a 4 KiB PUT and GET of several gateways of one process through `gateway.handle`. They work in turns, so the load of a
 * shared machine meets all alike. Neither a socket nor a disk is included, so the ratios are upper bounds.
 */

import { configWith } from '../../src/config/read-config.ts';
import type { Config } from '../../src/config.ts';
import type { Gateway } from '../../src/gateway.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { createTracer } from '../../src/telemetry/tracer.ts';
import { incomingOf } from './incoming.ts';
import { median } from './percentile.ts';
import { benchCredential, Signer, sha256Of } from './sign.ts';

/** The credentials that the gateways must know. */
export const credentials = [benchCredential];

export const cpuConfig = (): Config =>
  configWith({ SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop', SVC_LOG_LEVEL: 'WARN' });

/** The tracer that a server has by default. */
export const defaultTracer = (config: Config) =>
  createTracer({
    clock: systemClock,
    random: systemRandom(),
    process: 'bench:1',
    sample: config.SVC_TRACE_SAMPLE,
    browser: true,
  });

const perRound = 1_000;
const warmUpRounds = 5;
const body = new Uint8Array(4096).fill(3);
const signer = new Signer('localhost:9000');
const put = { method: 'PUT', path: '/bench/object', payloadHash: sha256Of(body), length: body.length };
const heads = { PUT: signer.header(put), GET: signer.header({ method: 'GET', path: '/bench/object' }) };

async function ask(gateway: Gateway, method: keyof typeof heads): Promise<void> {
  const reply = await gateway.handle(incomingOf(heads[method], method === 'PUT' ? body : undefined));
  if (reply.status >= 300) throw new Error(`${method} answered ${reply.status}`);
  if (typeof reply.body === 'object' && Symbol.asyncIterator in reply.body) for await (const _ of reply.body);
}

/** µs of CPU per request. */
async function measure(gateway: Gateway, method: keyof typeof heads): Promise<number> {
  const before = process.cpuUsage();
  for (let n = 0; n < perRound; n += 1) await ask(gateway, method);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / perRound;
}

/** Prints a line for each method and gateway; the ratios are medians of pairs with the first gateway. */
export async function compareRequestCpu(
  gateways: readonly (readonly [name: string, Gateway])[],
  rounds: number,
): Promise<void> {
  for (const [, gateway] of gateways)
    await gateway.handle(incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
  for (const method of ['PUT', 'GET'] as const) {
    const micros = gateways.map((): number[] => []);
    for (let round = -warmUpRounds; round < rounds; round += 1) {
      for (let n = 0; n < gateways.length; n += 1) {
        // Each gateway is the first of a round as often as the others.
        const at = (n + Math.max(0, round)) % gateways.length;
        const took = await measure((gateways[at] as (typeof gateways)[number])[1], method);
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
}

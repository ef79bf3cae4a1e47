/**
 * Compares the CPU of a 4 KiB GET of several gateways of one process over a socket. The requests of a steady load go to
 * one gateway after the other, some hundred to each, so the load of a shared machine meets all alike, and so do the
 * luck of the compiler and the place of the code: two processes of the same program differ by several percent.
 */

import type { Config } from '../../src/config.ts';
import type { Gateway } from '../../src/gateway.ts';
import { serve } from '../../src/runtime/node.ts';
import { Load } from './load.ts';
import { createBucket } from './measure.ts';
import { median } from './percentile.ts';

const perTurn = 256;
const warmUpRequests = 60_000;
const keys = 1_000;
const clients = 16;

/** Prints a line for each gateway; the ratios are medians of pairs with the first one. @param cycles turns of each gateway */
export async function compareSocketCpu(
  gateways: readonly (readonly [name: string, Gateway])[],
  { config, cycles }: { readonly config: Config; readonly cycles: number },
): Promise<void> {
  const turns = new Turns(gateways.map(([, gateway]) => gateway));
  const serving = await serve({ gateway: turns, config });
  const { hostname: host, port } = new URL(serving.url);
  const server = { name: 'here', pid: process.pid, host, port: Number(port), stop: () => serving.close() };
  const load = new Load(1);
  const order = { host, port: Number(port), bucket: 'bench', size: 4096, keys, clients, seconds: 3_600 };
  try {
    await createBucket(server, 'bench');
    await load.run({ ...order, operation: 'put', turns: keys });
    await load.run({ ...order, operation: 'get', turns: warmUpRequests });
    turns.begin();
    await load.run({ ...order, operation: 'get', turns: cycles * gateways.length * perTurn });
    for (const [at, [name]] of gateways.entries()) {
      const own = turns.micros[at] ?? [];
      const ratios = own.map((value, n) => value / (turns.micros[0]?.[n] ?? value)).toSorted((a, b) => a - b);
      const [low, high] = [0.25, 0.75].map(
        (share) => ratios[Math.floor(ratios.length * share)] ?? Number.NaN,
      );
      process.stdout.write(
        `GET 4 KiB over a socket, ${name}: ${median(own).toFixed(1)} µs, ${median(ratios).toFixed(3)}× (half of the pairs: ${low?.toFixed(3)} to ${high?.toFixed(3)})\n`,
      );
    }
  } finally {
    load.close();
    await serving.close();
  }
}

/** Gives its requests to the gateways in turns. */
class Turns implements Pick<Gateway, 'handle'> {
  readonly #gateways: readonly Gateway[];
  /** µs of CPU per request in each turn, by gateway. */
  readonly micros: number[][];
  #at = 0;
  #served = 0;
  #before = process.cpuUsage();
  #isCounting = false;

  constructor(gateways: readonly Gateway[]) {
    this.#gateways = gateways;
    this.micros = gateways.map(() => []);
  }

  begin(): void {
    [this.#at, this.#served, this.#before, this.#isCounting] = [0, 0, process.cpuUsage(), true];
  }

  handle(incoming: Parameters<Gateway['handle']>[0]): ReturnType<Gateway['handle']> {
    if (this.#served === perTurn) this.#next();
    this.#served += 1;
    return (this.#gateways[this.#at] as Gateway).handle(incoming);
  }

  #next(): void {
    const now = process.cpuUsage();
    const micros = now.user + now.system - this.#before.user - this.#before.system;
    if (this.#isCounting) this.micros[this.#at]?.push(micros / perTurn);
    this.#at = (this.#at + 1) % this.#gateways.length;
    [this.#served, this.#before] = [0, now];
  }
}

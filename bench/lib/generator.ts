/** One process of the load: a number of clients, each of which sends its next request when the last one is answered. */
import { Connection } from './connection.ts';
import { type OperationName, type OperationPlan, operations, type World, worldOf } from './operations.ts';
import { Signer } from './sign.ts';

export interface Order {
  readonly host: string;
  readonly port: number;
  readonly operation: OperationName;
  readonly bucket: string;
  readonly buckets: number | undefined;
  readonly size: number;
  readonly keys: number;
  readonly clients: number;
  /** Stop after so long, or when `turns` steps are done. */
  readonly seconds: number;
  readonly turns: number;
  /** This process takes the turns first, first + stride, … */
  readonly first: number;
  readonly stride: number;
  readonly sleeps: boolean;
}

export interface Done {
  readonly count: number;
  readonly bytes: number;
  readonly seconds: number;
  /** Milliseconds of each step. */
  readonly latencies: readonly number[];
  readonly error?: string;
}

/** A run's steps are remembered one by one up to here; beyond it every so many. */
const latenciesMax = 50_000;

let world: { readonly id: string; readonly value: World } | undefined;

async function run(order: Order): Promise<Done> {
  const { host, port, operation, bucket, buckets, size, keys, clients, first, stride } = order;
  const id = `${host}:${port}/${bucket}/${buckets}/${size}/${keys}`;
  if (world?.id !== id)
    world = { id, value: worldOf(new Signer(`${host}:${port}`), { bucket, buckets, size, keys }) };
  const { value } = world;
  const { step }: OperationPlan = operations[operation];
  const connections = await Promise.all(
    Array.from({ length: clients }, () => Connection.open({ host, port })),
  );
  const latencies: number[] = [];
  let [turn, count, bytes] = [first, 0, 0];
  const startedAt = performance.now();
  const deadline = startedAt + order.seconds * 1000;
  const stopPolling = size <= polledBytesMax && !order.sleeps ? poll() : () => {};
  try {
    await Promise.all(
      connections.map(async (connection) => {
        for (let at = performance.now(); turn < order.turns && at < deadline; ) {
          const own = turn;
          turn += stride;
          // Not `bytes += await`: that would add to what it was before the wait.
          const moved = await step(value, connection, own);
          bytes += moved;
          const now = performance.now();
          if (latencies.length < latenciesMax) latencies.push(now - at);
          count += 1;
          at = now;
        }
      }),
    );
    return { count, bytes, latencies, seconds: (performance.now() - startedAt) / 1000 };
  } finally {
    stopPolling();
    for (const connection of connections) connection.close();
  }
}

/** Large bodies keep a generator busy anyway. */
const polledBytesMax = 64 * 1024;

/**
 * A generator that sleeps must be woken, and waking an idle core costs a server more than answering does (on a virtual
 * machine 20 µs and more): a fast server, which never lets it sleep, would look better than it is beside a slow one. It
 * takes a core for that, which is too much where an engine behind the server needs it: there it sleeps, as floors do.
 */
function poll(): () => void {
  let isRunning = true;
  const turn = (): void => {
    if (isRunning) setImmediate(turn);
  };
  turn();
  return () => {
    isRunning = false;
  };
}

process.on('message', (order: Order) => {
  run(order).then(
    (done) => process.send?.(done),
    (error: Error) =>
      process.send?.({ count: 0, bytes: 0, latencies: [], seconds: 0, error: error.message } satisfies Done),
  );
});
process.on('disconnect', () => process.exit());

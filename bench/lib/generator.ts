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
  readonly isScattered: boolean;
  readonly clients: number;
  /** The generator stops after this time, or after `turns` steps. */
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
  /** The duration of each step, in milliseconds. */
  readonly latencies: readonly number[];
  readonly error?: string;
}

/** Up to this number every step is recorded; beyond it, a sample. */
const latenciesMax = 50_000;

let world: { readonly id: string; readonly value: World } | undefined;

async function run(order: Order): Promise<Done> {
  const { host, port, operation, bucket, buckets, size, keys, isScattered, clients, first, stride } = order;
  const id = `${host}:${port}/${bucket}/${buckets}/${size}/${keys}/${isScattered}`;
  if (world?.id !== id) world = { id, value: worldOf(new Signer(`${host}:${port}`), order) };
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
          // `bytes += await …` would read `bytes` before the wait and lose additions.
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

/** Polling is for small bodies: large ones keep a generator busy anyway. */
const polledBytesMax = 64 * 1024;

/**
 * Polls, because a generator that sleeps must be woken, and to wake an idle core costs a server more than the answer itself (20 µs and
 * more on a virtual machine). A fast server never lets the generator sleep, so it would look too good beside a slow one. Polling takes
 * a whole core; where an engine behind the server needs that core, the generator sleeps, as it does for floors.
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

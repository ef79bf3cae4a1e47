/**
 * `/metrics` of a whole node with several processes: each has a registry of its own, and the one that gets the request collects the
 * others' through the primary. A process that does not answer in time counts with what it told last, and an ended one with its counters.
 */
import cluster from 'node:cluster';
import type { ProcessMetrics } from '../../telemetry/metric-registry.ts';

const gatherTimeoutMs = 3_000;
/** Shorter, so that the asking process still gets what there is. */
const measureTimeoutMs = 2_000;

type Message =
  /** asking process → primary */
  | { readonly type: 'sluice:gather'; readonly id: number; readonly mine: ProcessMetrics }
  /** primary → every other process */
  | { readonly type: 'sluice:measure'; readonly round: number }
  | { readonly type: 'sluice:measured'; readonly round: number; readonly metrics: ProcessMetrics }
  /** primary → asking process */
  | { readonly type: 'sluice:gathered'; readonly id: number; readonly parts: readonly ProcessMetrics[] };

const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' &&
  value !== null &&
  String((value as { type?: unknown }).type).startsWith('sluice:');

/** Waits for these processes, by their ids. */
interface Waiting {
  readonly missing: Set<number>;
  readonly done: () => void;
}

/** In a worker process: answers requests for its metrics, and requests those of the others from the primary. */
export function gatherFromPeers(
  own: () => Promise<ProcessMetrics>,
): (mine: ProcessMetrics) => Promise<readonly ProcessMetrics[]> {
  const asked = new Map<number, (parts: readonly ProcessMetrics[]) => void>();
  let ids = 0;
  const send = (message: Message): void => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
  process.on('message', (message) => {
    if (!isMessage(message)) return;
    if (message.type === 'sluice:gathered') asked.get(message.id)?.(message.parts);
    if (message.type !== 'sluice:measure') return;
    const { round } = message;
    own().then(
      (metrics) => send({ type: 'sluice:measured', round, metrics }),
      () => send({ type: 'sluice:measured', round, metrics: [] }),
    );
  });
  return (mine) =>
    new Promise((resolve) => {
      const id = ids++;
      const finish = (parts: readonly ProcessMetrics[]): void => {
        clearTimeout(timer);
        asked.delete(id);
        resolve([mine, ...parts]);
      };
      const timer = setTimeout(() => finish([]), gatherTimeoutMs);
      asked.set(id, finish);
      send({ type: 'sluice:gather', id, mine });
    });
}

/** In the primary: forwards the request to every other process, and the answers back. */
export function relayMetrics(): void {
  const rounds = new Map<number, Waiting>();
  const latest = new Map<number, ProcessMetrics>();
  const ended = new EndedCounters();
  let count = 0;
  const settle = (round: number, id: number): void => {
    const waiting = rounds.get(round);
    if (waiting?.missing.delete(id) && waiting.missing.size === 0) waiting.done();
  };
  cluster.on('exit', ({ id }) => {
    const last = latest.get(id);
    latest.delete(id);
    if (last !== undefined) ended.add(last);
    for (const round of [...rounds.keys()]) settle(round, id);
  });
  cluster.on('message', (asking, message: unknown) => {
    if (!isMessage(message)) return;
    if (message.type === 'sluice:measured') {
      // None where the process could not measure.
      if (message.metrics.length > 0) latest.set(asking.id, message.metrics);
      settle(message.round, asking.id);
    }
    if (message.type !== 'sluice:gather') return;
    latest.set(asking.id, message.mine);
    const others = Object.values(cluster.workers ?? {}).flatMap((worker) =>
      worker === undefined || worker.id === asking.id || !worker.isConnected() ? [] : [worker],
    );
    const round = count++;
    const timer = setTimeout(() => finish(), measureTimeoutMs);
    const finish = (): void => {
      clearTimeout(timer);
      rounds.delete(round);
      const alive = [...latest].filter(([id]) => id !== asking.id).map(([, metrics]) => metrics);
      const parts = [...alive, ...ended.parts];
      if (asking.isConnected())
        asking.send({ type: 'sluice:gathered', id: message.id, parts } satisfies Message);
    };
    if (others.length === 0) return finish();
    rounds.set(round, { missing: new Set(others.map(({ id }) => id)), done: finish });
    for (const worker of others) worker.send({ type: 'sluice:measure', round } satisfies Message);
  });
}

// What processes of this node had counted when they ended. A node's counters then never fall while the node runs, so a rate over the
// restart of a process shows no reset. What a process counted after it was asked last is lost with it.

/** Series of buckets change with the busiest ones: kept for ever, they would have no bound. */
const isRetained = ({ labels }: { readonly labels: object }): boolean => !('bucket' in labels);

const selectCounters = (metrics: ProcessMetrics): ProcessMetrics =>
  metrics
    .filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
    .map((metric) => ({ ...metric, values: metric.values?.filter(isRetained) ?? [] }));

class EndedCounters {
  /** The sum of some processes, and those that are not in it yet. */
  readonly #parts: ProcessMetrics[] = [];
  #summing: Promise<void> | undefined;

  get parts(): readonly ProcessMetrics[] {
    return this.#parts;
  }

  add(last: ProcessMetrics): void {
    this.#parts.push(selectCounters(last));
    // Parts that cannot be summed up stay as they are, and are shown nevertheless.
    this.#summing ??= this.#sum()
      .catch(() => undefined)
      .finally(() => {
        this.#summing = undefined;
      });
  }

  async #sum(): Promise<void> {
    // Loaded here, because a primary needs it only when a process has ended.
    const { sumMetrics } = await import('../../telemetry/metric-registry.ts');
    while (this.#parts.length > 1) {
      const count = this.#parts.length;
      const sum = sumMetrics(this.#parts.slice(0, count));
      this.#parts.splice(0, count, sum);
    }
  }
}

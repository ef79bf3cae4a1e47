/**
 * `/metrics` of a whole node with several processes: each has a registry of its own, and the one that gets the request collects the
 * others' through the primary. A process that does not answer in time is left out.
 */
import cluster from 'node:cluster';
import type { ProcessMetrics } from '../../telemetry/prom-metrics.ts';

const gatherTimeoutMs = 3_000;
/** Shorter, so that the asking process still gets what there is. */
const measureTimeoutMs = 2_000;

type Message =
  /** asking process → primary */
  | { readonly type: 'sluice:gather'; readonly id: number }
  /** primary → every other process */
  | { readonly type: 'sluice:measure'; readonly round: number }
  | { readonly type: 'sluice:measured'; readonly round: number; readonly metrics: ProcessMetrics }
  /** primary → asking process */
  | { readonly type: 'sluice:gathered'; readonly id: number; readonly parts: readonly ProcessMetrics[] };

const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' &&
  value !== null &&
  String((value as { type?: unknown }).type).startsWith('sluice:');

/** Waits for `count` further parts, at most so long. */
interface Waiting {
  readonly parts: ProcessMetrics[];
  missing: number;
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
      send({ type: 'sluice:gather', id });
    });
}

/** In the primary: forwards the request to every other process, and the answers back. */
export function relayMetrics(): void {
  const rounds = new Map<number, Waiting>();
  let count = 0;
  cluster.on('message', (asking, message: unknown) => {
    if (!isMessage(message)) return;
    if (message.type === 'sluice:measured') take(rounds.get(message.round), message.metrics);
    if (message.type !== 'sluice:gather') return;
    const { id } = message;
    const others = Object.values(cluster.workers ?? {}).filter(
      (worker) => worker !== undefined && worker.id !== asking.id && worker.isConnected(),
    );
    const round = count++;
    const timer = setTimeout(() => finish(), measureTimeoutMs);
    const parts: ProcessMetrics[] = [];
    const finish = (): void => {
      clearTimeout(timer);
      rounds.delete(round);
      if (asking.isConnected()) asking.send({ type: 'sluice:gathered', id, parts } satisfies Message);
    };
    if (others.length === 0) return finish();
    rounds.set(round, { parts, missing: others.length, done: finish });
    for (const worker of others) worker?.send({ type: 'sluice:measure', round } satisfies Message);
  });
}

function take(waiting: Waiting | undefined, metrics: ProcessMetrics): void {
  if (waiting === undefined) return;
  waiting.parts.push(metrics);
  waiting.missing -= 1;
  if (waiting.missing === 0) waiting.done();
}

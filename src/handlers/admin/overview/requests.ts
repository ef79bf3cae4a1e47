/** GetRequestHistory: requests, failures and durations of the storage protocol, over the processes of this node. */
import {
  type MinuteCounts,
  percentileMs,
  type RequestCounts,
  RequestHistory,
  sumCounts,
} from '../../../base/request-history.ts';
import type { Context } from '../../../context.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

const topic = 'requests';
/** A process that is busy for longer is left out. */
const askMs = 2_000;
/** Points of a reply, at most; those of a day are five minutes each. */
const pointsMax = 288;

/** Answers the questions of the other processes of the node. */
export function shareRequests({
  siblings,
  caches,
  clock,
}: Pick<Context, 'siblings' | 'caches' | 'clock'>): void {
  siblings.answer(topic, (about) =>
    JSON.stringify(caches.of(RequestHistory).read(clock.now(), Number(about))),
  );
}

export const roundMs = (ms: number | undefined): number | undefined => ms && Math.round(ms * 10) / 10;

const describe = (counts: RequestCounts, seconds: number) => ({
  requests: counts.requests,
  refused: counts.refused,
  failed: counts.failed,
  perSecond: Math.round((counts.requests / seconds) * 100) / 100,
  p50Ms: roundMs(percentileMs(counts.durations, 0.5)),
  p99Ms: roundMs(percentileMs(counts.durations, 0.99)),
});

/** Of the last minutes, by the processes of this node that answer in time. */
export async function readNodeMinutes(
  { siblings, caches, clock }: Pick<Context, 'siblings' | 'caches' | 'clock'>,
  minutes: number,
): Promise<{ readonly minutes: MinuteCounts; readonly processes: number }> {
  const answers = await siblings.ask({ topic, about: String(minutes) }, askMs);
  // The cast: a process of this node has answered.
  const others = answers.map((answer) => JSON.parse(answer) as MinuteCounts);
  const own = caches.of(RequestHistory).read(clock.now(), minutes);
  return { minutes: [own, ...others].flat(), processes: 1 + others.length };
}

export const GetRequestHistory: AdminHandler<'GetRequestHistory'> = async (ctx, { query }) => {
  const { minutes = 15 } = query;
  const now = ctx.clock.now();
  const { minutes: all, processes } = await readNodeMinutes(ctx, minutes);
  const step = Math.ceil(minutes / pointsMax);
  const first = Math.floor(now / 60_000) - minutes + 1;
  const byPoint = Map.groupBy(all, ([minute]) => Math.floor((minute - first) / step));
  const points = Array.from({ length: Math.ceil(minutes / step) }, (_, index) => ({
    at: new Date((first + index * step) * 60_000).toISOString(),
    ...describe(sumCounts((byPoint.get(index) ?? []).map(([, counters]) => counters)), step * 60),
  }));
  const total = describe(sumCounts(all.map(([, counters]) => counters)), minutes * 60);
  return jsonReply({ stepSeconds: step * 60, processes, total, points });
};

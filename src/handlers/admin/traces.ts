/** The traces that the processes of this node keep: see docs/operations/traces.md. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { TraceDocument, TraceFilter, TraceSummary } from '../../ports/trace.ts';
import { type AdminHandler, jsonReply } from './call.ts';

const topic = 'traces';
/** A process that is busy for longer is left out. */
const askMs = 2_000;
const listedMax = 50;
/** One request, and the deliveries that it has caused. */
const foundMax = 20;

/** What the processes of a node ask each other. */
type Question = { readonly list: TraceFilter } | { readonly find: string };

/** Answers the questions of the other processes of the node. */
export function shareTraces({ siblings, tracer }: Pick<Context, 'siblings' | 'tracer'>): void {
  siblings.answer(topic, (about) => {
    // The cast: only processes of this node ask.
    const question = JSON.parse(about) as Question;
    const answer = 'find' in question ? tracer?.find(question.find, foundMax) : tracer?.list(question.list);
    return JSON.stringify(answer ?? []);
  });
}

async function askNode<T extends TraceSummary>(
  { siblings }: Context,
  question: Question,
  own: readonly T[],
): Promise<readonly T[]> {
  const answers = await siblings.ask({ topic, about: JSON.stringify(question) }, askMs);
  // The cast: a process of this node has answered.
  const all = [...own, ...answers.flatMap((answer) => JSON.parse(answer) as T[])];
  return all.sort((a, b) => Date.parse(b.startedAt) - Date.parse(a.startedAt));
}

export const ListTraces: AdminHandler<'ListTraces'> = async (ctx, { query, requestId }) => {
  const { limit = listedMax, ...conditions } = query;
  const filter = { ...conditions, max: limit };
  // The request that asks runs too, and is not of interest.
  const own = tracerOf(ctx).list({ ...filter, max: filter.max + 1 });
  const all = await askNode(ctx, { list: filter }, own);
  const traces = all.filter((each) => each.requestId !== requestId).slice(0, filter.max);
  return jsonReply({ traces });
};

export const GetTrace: AdminHandler<'GetTrace'> = async (ctx, { params, entries }) => {
  const id = params.get('id') ?? '';
  const own = tracerOf(ctx).find(id, foundMax);
  const traces: readonly TraceDocument[] = await askNode(ctx, { find: id }, own);
  if (traces.length === 0)
    throw fail(
      'NotFound',
      `No process of this node keeps a trace of request ${id.slice(0, 64)}. It keeps failures, the slowest requests and a sample, each until newer ones need the space; another gateway may have served the request.`,
    );
  for (const trace of traces) {
    const denial = await entries.denialOf('traces', trace);
    if (denial !== undefined) throw denial;
  }
  // The request first, then what it caused.
  return jsonReply({ traces: traces.toReversed() });
};

function tracerOf({ tracer }: Context): NonNullable<Context['tracer']> {
  if (tracer === undefined)
    throw fail('NotImplemented', 'This gateway keeps no traces: set SVC_TRACE_BROWSER=on.');
  return tracer;
}

/** The traces that the processes of all gateways keep: see docs/operations/traces.md. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { TraceDocument, TraceFilter, TraceSummary } from '../../ports/trace.ts';
import { type AdminHandler, jsonReply } from './call.ts';

const topic = 'traces';
/** A process that is busy for longer is left out. Those of other nodes look for questions once a second. */
const askMs = 2_000;
const askNodesMs = 4_000;
const listedMax = 50;
/** One request, and the deliveries that it has caused. */
const foundMax = 20;

/** What processes ask each other. */
type Question = { readonly list: TraceFilter } | { readonly find: string };

/** Answers the questions of the other processes. */
export function shareTraces({
  siblings,
  otherNodes,
  tracer,
}: Pick<Context, 'siblings' | 'otherNodes' | 'tracer'>): void {
  const answer = (about: string): string => {
    // The cast: only processes of this installation ask.
    const question = JSON.parse(about) as Question;
    const found = 'find' in question ? tracer?.find(question.find, foundMax) : tracer?.list(question.list);
    return JSON.stringify(found ?? []);
  };
  siblings.answer(topic, answer);
  otherNodes?.answer(topic, answer);
}

interface Found<T> {
  /** The latest first. */
  readonly traces: readonly T[];
  /** Processes that have answered, this one included, and those of other nodes that have not. */
  readonly processes: number;
  readonly silent: number;
}

async function askEveryProcess<T extends TraceSummary>(
  { siblings, otherNodes }: Context,
  question: Question,
  own: readonly T[],
): Promise<Found<T>> {
  const asked = { topic, about: JSON.stringify(question) };
  const [ofNode, ofOthers = { answers: [], silent: 0 }] = await Promise.all([
    siblings.ask(asked, askMs),
    otherNodes?.ask(asked, askNodesMs),
  ]);
  const answers = [...ofNode, ...ofOthers.answers];
  // The cast: a process of this installation has answered.
  const all = [...own, ...answers.flatMap((answer) => JSON.parse(answer) as T[])];
  return {
    traces: all.sort((a, b) => Date.parse(b.startedAt) - Date.parse(a.startedAt)),
    processes: 1 + answers.length,
    silent: ofOthers.silent,
  };
}

export const ListTraces: AdminHandler<'ListTraces'> = async (ctx, { query, requestId }) => {
  const { limit = listedMax, ...conditions } = query;
  const filter = { ...conditions, max: limit };
  // The request that asks runs too, and is not of interest.
  const own = requireTracer(ctx).list({ ...filter, max: filter.max + 1 });
  const { traces: all, ...asked } = await askEveryProcess(ctx, { list: filter }, own);
  const traces = all.filter((each) => each.requestId !== requestId).slice(0, filter.max);
  return jsonReply({ traces, ...asked });
};

export const GetTrace: AdminHandler<'GetTrace'> = async (ctx, { params, entries }) => {
  const id = params.get('id') ?? '';
  const own = requireTracer(ctx).find(id, foundMax);
  const { traces, silent }: Found<TraceDocument> = await askEveryProcess(ctx, { find: id }, own);
  if (traces.length === 0)
    throw fail(
      'NotFound',
      `No process keeps a trace of request ${id.slice(0, 64)}. They keep failures, the slowest requests and a sample, each until newer ones need the space.${silent === 0 ? '' : ` Processes of other gateways that did not answer: ${silent}.`}`,
    );
  for (const trace of traces) {
    const denial = await entries.denialOf('traces', trace);
    if (denial !== undefined) throw denial;
  }
  // The request first, then what it caused.
  return jsonReply({ traces: traces.toReversed() });
};

function requireTracer({ tracer }: Context): NonNullable<Context['tracer']> {
  if (tracer === undefined)
    throw fail('NotImplemented', 'This gateway keeps no traces: set SVC_TRACE_BROWSER=on.');
  return tracer;
}

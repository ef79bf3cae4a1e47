/** Traces as text: a line for each span, below its parent, with a bar where it was in the time of its trace. */
import { printable } from '../../../base/text/printable.ts';
import type { SpanDocument, TraceDocument } from '../../../ports/trace.ts';

const barWidth = 32;
const ms = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(1));

/** The request first, then the deliveries that it caused. */
export const formatTraces = (traces: readonly TraceDocument[]): string =>
  `${traces.map(formatTrace).join('\n\n')}\n`;

function formatTrace(trace: TraceDocument): string {
  const { operation, bucket, key, status, code, durationMs, headMs, requestId, traceId, links } = trace;
  const about = bucket === '' ? '' : ` ${bucket}${key === '' ? '' : `/${key}`}`;
  const outcome = [status, code].filter((each) => each !== undefined).join(' ');
  const head = headMs === undefined ? '' : `, head of the reply after ${ms(headMs)} ms`;
  const lines = [
    `${operation}${about}  ${outcome === '' ? (trace.kept === 'running' ? 'running' : 'done') : outcome}`,
    `${ms(durationMs)} ms from ${trace.startedAt}${head}, in ${trace.process}`,
    `request ${requestId}, trace ${traceId}${trace.parent === undefined ? '' : `, below the caller's span ${trace.parent}`}`,
    ...links.map((link) => `caused by ${link}`),
    ...attributesOf(trace),
    `${'start'.padStart(9)} ${'ms'.padStart(9)}`,
    ...spanLines(trace),
    ...(trace.leftOut === 0 ? [] : [`${trace.leftOut} further spans are not kept`]),
  ];
  return lines.map(printable).join('\n');
}

const shown = [
  'http.request.method',
  'url.path',
  'client.address',
  'aws.s3.copy_source',
  'messaging.destination.name',
];

const attributesOf = ({ attributes }: TraceDocument): readonly string[] => {
  const texts = shown.flatMap((name) => (name in attributes ? [`${name}=${String(attributes[name])}`] : []));
  return texts.length === 0 ? [] : [texts.join('  ')];
};

/** Each below its parent, in the order in which they began. */
function spanLines(trace: TraceDocument): readonly string[] {
  const children = Map.groupBy(trace.spans, ({ parent }) => parent);
  const lines: string[] = [];
  const walk = (parent: string, depth: number): void => {
    for (const span of children.get(parent) ?? []) {
      lines.push(spanLine(span, depth, trace.durationMs));
      walk(span.id, depth + 1);
    }
  };
  walk(trace.spanId, 0);
  return lines;
}

function spanLine(span: SpanDocument, depth: number, totalMs: number): string {
  const { name, about, startMs, durationMs, error } = span;
  const took = durationMs ?? totalMs - startMs;
  const column = (at: number): number =>
    totalMs === 0 ? 0 : Math.min(barWidth, Math.round((at / totalMs) * barWidth));
  const from = Math.min(column(startMs), barWidth - 1);
  const bar = '█'.repeat(Math.max(1, column(startMs + took) - from));
  const place = `${' '.repeat(from)}${bar}`.padEnd(barWidth);
  const state = durationMs === undefined ? '  runs' : error === undefined ? '' : `  failed: ${error}`;
  return `${ms(startMs).padStart(9)} ${ms(took).padStart(9)} |${place}| ${'  '.repeat(depth)}${name}${about === '' ? '' : ` ${about}`}${state}`;
}

/** One trace: its facts, and its spans as a waterfall. */
import { useParams } from '@tanstack/react-router';
import { useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Reading } from '../../ui/states.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Duration, formatDuration, Time } from '../../ui/values.tsx';
import { Kept } from './traces.tsx';
import { w } from './words.ts';

type Trace = Answer<'GetTrace'>['traces'][number];
type Span = Trace['spans'][number];

export default function TracePage() {
  // The cast: routes come from a table, so the compiler knows none of their parameters.
  const { trace: id } = useParams({ strict: false }) as { readonly trace: string };
  const allowed = useAllowed(['GetTrace']);
  const found = useAdmin('GetTrace', { path: { id } }, { enabled: allowed('GetTrace') === true });
  const first = found.data?.traces[0];
  if (allowed('GetTrace') === false) return <Forbidden title={t.pages.trace} operation="GetTrace" />;
  return (
    <>
      <PageHead
        title={first?.operation ?? t.pages.trace}
        answer={first && <Answered trace={first} />}
        actions={
          <PageLink page="audit" search={{ requestId: first?.requestId ?? id }} class="button">
            {t.pages.audit}
          </PageLink>
        }
      />
      <Reading query={found} rows={6}>
        {({ traces }) => (
          <>
            {traces.map((trace) => (
              <OneTrace key={trace.spanId} trace={trace} />
            ))}
          </>
        )}
      </Reading>
    </>
  );
}

const Answered = ({ trace: { durationMs, startedAt, status, code } }: { readonly trace: Trace }) => (
  <>
    {w.tookSentence(formatDuration(durationMs))} {code ?? status ?? ''} · <Time at={startedAt} />
  </>
);

const OneTrace = ({ trace }: { readonly trace: Trace }) => (
  <Card title={`${trace.operation} · ${w.kinds[trace.kind]}`}>
    <div class="card-line">
      <Facts
        facts={[
          [w.result, <Kept key="kept" kept={trace.kept} status={trace.status} code={trace.code} />],
          [w.about, trace.bucket && `${trace.bucket}${trace.key === '' ? '' : `/${trace.key}`}`],
          [t.ui.request, <Copy key="id" text={trace.requestId} />],
          [w.traceId, <Copy key="trace" text={trace.traceId} />],
          [w.head, trace.headMs !== undefined && <Duration ms={trace.headMs} />],
          [w.process, trace.process],
          ...Object.entries(trace.attributes).map(([name, value]) => [name, String(value)] as const),
        ]}
      />
    </div>
    <Waterfall trace={trace} />
    {trace.leftOut > 0 && <p class="card-line quiet">{w.leftOut(trace.leftOut)}</p>}
  </Card>
);

interface Line {
  readonly span: Span;
  readonly depth: number;
}

/** Spans below their parents, each by its start. */
function linesOf({ spans, spanId }: Pick<Trace, 'spans' | 'spanId'>): readonly Line[] {
  const below = new Map<string, Span[]>();
  const known = new Set(spans.map(({ id }) => id));
  for (const span of spans) {
    const parent = known.has(span.parent) ? span.parent : spanId;
    below.set(parent, [...(below.get(parent) ?? []), span]);
  }
  const lines: Line[] = [];
  const walk = (id: string, depth: number): void => {
    for (const span of (below.get(id) ?? []).sort((a, b) => a.startMs - b.startMs)) {
      lines.push({ span, depth });
      if (depth < 20) walk(span.id, depth + 1);
    }
  };
  walk(spanId, 0);
  return lines;
}

function Waterfall({ trace }: { readonly trace: Trace }) {
  const lines = linesOf(trace);
  const total = Math.max(
    trace.durationMs,
    ...trace.spans.map(({ startMs, durationMs = 0 }) => startMs + durationMs),
    0.001,
  );
  if (lines.length === 0) return <p class="card-line quiet">{w.noSpans}</p>;
  return (
    <ol class="waterfall">
      {lines.map(({ span, depth }) => {
        const { id, name, about, startMs, durationMs, error } = span;
        const width = Math.max(0.4, ((durationMs ?? total - startMs) / total) * 100);
        return (
          <li key={id} class={error === undefined ? 'span' : 'span is-bad'}>
            <span
              class="span-name cut"
              style={{ paddingInlineStart: `${depth * 12}px` }}
              title={`${name} ${about}`}
            >
              {error !== undefined && <Icon name="error" size={14} />} {name}{' '}
              <span class="quiet" dir="auto">
                {about}
              </span>
            </span>
            <span class="span-lane">
              <span
                class="span-bar"
                style={{
                  marginInlineStart: `${Math.min(99.5, (startMs / total) * 100)}%`,
                  width: `${width}%`,
                }}
              />
            </span>
            <span class="span-time number">
              {durationMs === undefined ? w.kept.running : <Duration ms={durationMs} />}
            </span>
            {error !== undefined && (
              <span class="span-error fault" dir="auto">
                {error}
              </span>
            )}
          </li>
        );
      })}
    </ol>
  );
}

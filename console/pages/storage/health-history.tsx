/** The health of the last 24 hours: a strip of what was in force when, and its changes. */
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { formatDuration, Time } from '../../ui/values.tsx';

const w = words({
  en: {
    title: 'Health in the last 24 hours',
    healthy: 'Healthy all the time.',
    unhealthy: (spells: number, text: string) =>
      `${plural(spells, 'spell', 'spells')} with warnings, ${text} together.`,
    partly: (text: string) => `Recorded for ${text}.`,
    none: 'Nothing was recorded yet: the worker health-history probes storage once a minute.',
    cut: 'There were more changes than are kept: the oldest are left out.',
    changes: 'Changes',
    at: 'Since',
    state: 'State',
    warnings: 'Warnings',
    ok: 'healthy',
    bad: 'warnings',
    more: (count: number) => `and ${count} more`,
    hoursAgo: '24 h ago',
    now: 'now',
  },
  de: {
    title: 'Gesundheit in den letzten 24 Stunden',
    healthy: 'Die ganze Zeit gesund.',
    unhealthy: (spells, text) =>
      `${plural(spells, 'Zeitraum', 'Zeiträume')} mit Warnungen, zusammen ${text}.`,
    partly: (text) => `Aufgezeichnet seit ${text}.`,
    none: 'Noch ist nichts aufgezeichnet: der Worker health-history prüft den Speicher jede Minute.',
    cut: 'Es gab mehr Änderungen, als aufbewahrt werden: die ältesten fehlen.',
    changes: 'Änderungen',
    at: 'Seit',
    state: 'Zustand',
    warnings: 'Warnungen',
    ok: 'gesund',
    bad: 'Warnungen',
    more: (count) => `und ${count} weitere`,
    hoursAgo: 'vor 24 h',
    now: 'jetzt',
  },
});

const everyMs = 60_000;
const dayMs = 86_400_000;

type History = Answer<'GetHealthHistory'>;
type Change = History['changes'][number];

interface Span {
  readonly from: number;
  readonly ms: number;
  /** Undefined before the record began. */
  readonly ok: boolean | undefined;
}

/** What was in force when, from a day ago until now. */
function spansOf({ changes, since, until }: History): readonly Span[] {
  const end = Date.parse(until);
  const begin = end - dayMs;
  const first = since === undefined ? end : Math.max(begin, Date.parse(since));
  const spans = changes.map(({ at, ok }, index): Span => {
    const from = Math.max(first, Date.parse(at));
    const next = changes[index + 1];
    return { from, ms: (next === undefined ? end : Date.parse(next.at)) - from, ok };
  });
  return [{ from: begin, ms: first - begin, ok: undefined }, ...spans].filter(({ ms }) => ms > 0);
}

const columns: readonly Column<Change>[] = [
  { id: 'at', head: w.at, cell: ({ at }) => <Time at={at} /> },
  {
    id: 'state',
    head: w.state,
    cell: ({ ok }) => <Chip tone={ok ? 'good' : 'warn'}>{ok ? w.ok : w.bad}</Chip>,
  },
  {
    id: 'warnings',
    head: w.warnings,
    cell: ({ warnings, more = 0 }) =>
      warnings.length === 0 ? (
        '–'
      ) : (
        <span class="cut" dir="auto" title={warnings.join('\n')}>
          {warnings.join(' · ')} {more > 0 && w.more(more)}
        </span>
      ),
  },
];

/** Here and not in the style sheets, which every page loads. The states differ by their height too, not by colour alone. */
const strip = { display: 'flex', gap: '1px', height: '20px' };
const lookOf = (ok: boolean | undefined) => ({
  minWidth: '2px',
  background: `var(--${ok === undefined ? 'hover' : ok ? 'good' : 'warn'})`,
  ...(ok === true ? { marginBlock: '6px' } : {}),
});

const shownMax = 10;

export function HealthHistory() {
  const history = useAdmin('GetHealthHistory', {}, { everyMs });
  return (
    <Card title={w.title}>
      <Reading query={history} rows={1}>
        {(found) => <Told history={found} />}
      </Reading>
    </Card>
  );
}

function Told({ history }: { readonly history: History }) {
  const { changes, isCut, since } = history;
  if (since === undefined) return <p class="quiet card-line">{w.none}</p>;
  const spans = spansOf(history);
  const newest = changes.toReversed().slice(0, shownMax);
  return (
    <>
      <div class="card-line stack">
        <p>
          {sentenceOf(spans)} {isCut && <span class="quiet">{w.cut}</span>}
        </p>
        <div role="img" aria-label={sentenceOf(spans)} style={strip}>
          {spans.map(({ from, ms, ok }) => (
            <span
              key={from}
              style={{ ...lookOf(ok), flexGrow: ms }}
              title={`${new Date(from).toISOString().slice(0, 16)}Z · ${formatDuration(ms)}`}
            />
          ))}
        </div>
        <div class="progress-words quiet" aria-hidden="true">
          <span>{w.hoursAgo}</span>
          <span>{w.now}</span>
        </div>
      </div>
      {changes.some(({ ok }) => !ok) && (
        <ShortTable label={w.changes} columns={columns} rows={newest} rowKey={({ at }) => at} />
      )}
    </>
  );
}

function sentenceOf(spans: readonly Span[]): string {
  const bad = spans.filter(({ ok }) => ok === false);
  const recorded = spans.filter(({ ok }) => ok !== undefined).reduce((sum, { ms }) => sum + ms, 0);
  // Neighbours of other warnings are one spell.
  const spells = bad.filter((span) => !bad.some(({ from, ms }) => from + ms === span.from)).length;
  const together = formatDuration(bad.reduce((sum, { ms }) => sum + ms, 0));
  const state = bad.length === 0 ? w.healthy : w.unhealthy(spells, together);
  return recorded < dayMs - everyMs ? `${state} ${w.partly(formatDuration(recorded))}` : state;
}

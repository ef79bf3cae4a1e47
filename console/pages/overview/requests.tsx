/** Requests to this node: rate, failures and the time until replies begin, over a quarter of an hour or a day. */
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber } from '../../text/text.ts';
import { Chart } from '../../ui/chart.tsx';
import { formatUnit } from '../../ui/chart-data.ts';
import { Segments } from '../../ui/segments.tsx';
import { Previous, Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { formatCount, formatDuration } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 30_000;
const ranges = { '': 15, day: 1_440 } as const;
type Range = keyof typeof ranges;

export function Requests({ enabled }: { readonly enabled: boolean }) {
  const [search, setSearch] = useSearchState();
  const range: Range = search['range'] === 'day' ? 'day' : '';
  const history = useAdmin(
    'GetRequestHistory',
    { query: { minutes: ranges[range] } },
    { everyMs, enabled, keepsLast: true },
  );
  if (!enabled) return null;
  return (
    <Card
      title={w.requests}
      actions={
        <Segments
          label={w.span}
          value={range}
          options={[
            ['', w.quarter],
            ['day', w.day],
          ]}
          onChange={(next) => setSearch({ range: next })}
        />
      }
    >
      <Reading query={history} rows={5}>
        {(found) => (
          <Previous isPrevious={history.isPlaceholderData}>
            <History history={found} />
          </Previous>
        )}
      </Reading>
    </Card>
  );
}

const share = (part: number, all: number): string =>
  all === 0 ? '–' : formatNumber(part / all, { style: 'percent', maximumFractionDigits: 2 });

function History({
  history: { total, points, processes },
}: {
  readonly history: Answer<'GetRequestHistory'>;
}) {
  const times = points.map(({ at }) => Date.parse(at) / 1000);
  return (
    <>
      <dl class="figures">
        <Figure
          label={w.rate}
          value={formatUnit.perSecond(total.perSecond)}
          more={w.requestsIn(total.requests, formatCount(total.requests))}
        />
        <Figure
          label={w.failures}
          value={share(total.failed, total.requests)}
          more={w.failed(total.failed)}
          isBad={total.failed > 0}
        />
        <Figure
          label={w.refused}
          value={share(total.refused, total.requests)}
          more={w.refusedIn(total.refused)}
        />
        <Figure
          label={w.slowest}
          value={total.p99Ms === undefined ? '–' : formatDuration(total.p99Ms)}
          more={w.untilReply}
        />
      </dl>
      <div class="cards">
        <Chart
          label={w.rateChart}
          unit="perSecond"
          times={times}
          series={[
            { name: w.requests, values: points.map(({ perSecond }) => perSecond) },
            {
              name: w.failures,
              values: points.map(({ failed, requests, perSecond }) =>
                requests === 0 ? 0 : (perSecond * failed) / requests,
              ),
            },
          ]}
        />
        <Chart
          label={w.timeChart}
          unit="ms"
          times={times}
          series={[
            { name: 'p50', values: points.map(({ p50Ms }) => p50Ms ?? null) },
            { name: 'p99', values: points.map(({ p99Ms }) => p99Ms ?? null) },
          ]}
        />
      </div>
      <p class="quiet card-line foot">{w.ofNode(processes)}</p>
    </>
  );
}

interface FigureProps {
  readonly label: string;
  readonly value: string;
  readonly more: string;
  readonly isBad?: boolean;
}

const Figure = ({ label, value, more, isBad = false }: FigureProps) => (
  <div>
    <dt>{label}</dt>
    <dd class={isBad ? 'figure tone-bad' : 'figure'}>{value}</dd>
    <dd class="quiet">{more}</dd>
  </div>
);

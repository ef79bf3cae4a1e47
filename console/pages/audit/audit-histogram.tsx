/** Requests of the audit log over time, by their result: where a burst of refusals or deletions was. */
import type { Ask } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { Chart } from '../../ui/chart.tsx';
import { Previous, Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Time } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 60_000;

export function AuditHistogram({
  query,
}: {
  readonly query: NonNullable<Ask<'GetAuditHistogram'>['query']>;
}) {
  const found = useAdmin('GetAuditHistogram', { query }, { everyMs, keepsLast: true });
  return (
    <Card>
      <Reading query={found} rows={4}>
        {({ points, countedFrom }) => {
          const [first] = points;
          const isCut = first !== undefined && Date.parse(countedFrom) > Date.parse(first.at);
          return (
            <Previous isPrevious={found.isPlaceholderData}>
              <Chart
                label={w.histogram}
                unit="count"
                times={points.map(({ at }) => Date.parse(at) / 1_000)}
                series={[
                  { name: w.done, values: points.map(({ done }) => done) },
                  { name: w.refused, values: points.map(({ refused }) => refused) },
                  { name: w.failed, values: points.map(({ failed }) => failed) },
                ]}
                stacked
              />
              {isCut && (
                <p class="quiet card-line foot">
                  {w.countedFrom} <Time at={countedFrom} />
                </p>
              )}
            </Previous>
          );
        }}
      </Reading>
    </Card>
  );
}

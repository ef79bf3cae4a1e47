/** A chart over time, and the same data as a table behind a toggle. The library that draws is loaded with the first chart. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { type ChartProps, formatUnit } from './chart-data.ts';
import { Button } from './form.tsx';
import { ScrollRegion } from './scroll-region.tsx';

export function Chart(props: ChartProps) {
  const [isTable, setTable] = useState(false);
  return (
    <figure class="chart">
      <figcaption class="chart-head">
        <span>{props.label}</span>
        <Button kind="link" onClick={() => setTable(!isTable)}>
          {isTable ? t.ui.chart : t.ui.table}
        </Button>
      </figcaption>
      {isTable ? <ChartTable {...props} /> : <Plot {...props} />}
    </figure>
  );
}

function Plot(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const { label, unit, times, series, stacked } = props;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    let stop: (() => void) | undefined;
    let isGone = false;
    import('./plot.ts')
      .then(({ drawPlot }) => {
        if (!isGone) stop = drawPlot(element, { label, unit, times, series, stacked });
      })
      .catch(() => {});
    return () => {
      isGone = true;
      stop?.();
    };
  }, [label, unit, times, series, stacked]);
  return (
    <>
      <div class="plot" ref={place} role="img" aria-label={label} />
      <ul class="legend">
        {series.map(({ name }, index) => (
          <li key={name}>
            <span class={`swatch swatch-${index % 6}`} />
            <bdi class="cut" title={name}>
              {name}
            </bdi>
          </li>
        ))}
      </ul>
    </>
  );
}

const ChartTable = ({ label, unit, times, series }: ChartProps) => (
  <ScrollRegion label={label} isTall>
    <table>
      <thead>
        <tr>
          <th scope="col">
            {t.ui.time} ({t.ui.utc})
          </th>
          {series.map(({ name }) => (
            <th key={name} scope="col" class="end">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {times.map((time, index) => (
          <tr key={time}>
            <td class="number">{new Date(time * 1000).toISOString().slice(0, 16).replace('T', ' ')}</td>
            {series.map(({ name, values }) => (
              <td key={name} class="end number">
                {values[index] == null ? '–' : formatUnit[unit](values[index])}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </ScrollRegion>
);

/** A line without axes, for cells of tables. */
export function Sparkline({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  if (values.length < 2) return <span class="quiet">–</span>;
  const top = Math.max(...values, 1);
  const points = values.map(
    (value, index) =>
      `${((index * 96) / (values.length - 1)).toFixed(1)},${(22 - (value * 20) / top).toFixed(1)}`,
  );
  return (
    <svg class="spark" width="96" height="24" viewBox="0 0 96 24" role="img" aria-label={label}>
      <polyline points={points.join(' ')} />
    </svg>
  );
}

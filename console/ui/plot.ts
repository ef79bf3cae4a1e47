/** Draws a chart with uPlot, in the colours of the theme. */
import uPlot from 'uplot';
import { language, t } from '../text/text.ts';
import { type ChartProps, formatUnit } from './chart-data.ts';

const height = 200;
/** A canvas takes no custom properties: an element resolves them for the present theme. */
function readColours(element: HTMLElement, names: readonly string[]): ReadonlyMap<string, string> {
  const probe = document.createElement('span');
  element.append(probe);
  const found = new Map(
    names.map((name) => {
      probe.style.color = `var(${name})`;
      return [name, getComputedStyle(probe).color] as const;
    }),
  );
  probe.remove();
  return found;
}

const daySeconds = 86_400;
/** Axes of values that belong to whole days have no marks within a day. */
const dayIncrements = [1, 2, 7, 14, 28, 56, 112, 224].map((days) => days * daySeconds);
/** Axes of bytes have round numbers of KiB, MiB and so on. */
const byteIncrements = Array.from({ length: 63 }, (_, power) => 2 ** power);

/** The values of each series on top of those before it. */
function stack(series: ChartProps['series']): (number | null)[][] {
  const sums: number[] = [];
  return series.map(({ values }) =>
    values.map((value, index) => {
      sums[index] = (sums[index] ?? 0) + (value ?? 0);
      return sums[index];
    }),
  );
}

// Hours are those of the reader's clock. Values that belong to whole days are of UTC days.
const clock = new Intl.DateTimeFormat(language, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat(language, { day: 'numeric', month: 'short' });
const utcDay = new Intl.DateTimeFormat(language, { day: 'numeric', month: 'short', timeZone: 'UTC' });
const moment = new Intl.DateTimeFormat(language, {
  dateStyle: 'medium',
  timeStyle: 'short',
  hourCycle: 'h23',
});

/** The moment of a value: local and UTC, or the UTC day. */
function writeMoment(date: Date, isDaily: boolean): string {
  const text = date
    .toISOString()
    .slice(0, isDaily ? 10 : 16)
    .replace('T', ' ');
  const utc = `${text} ${t.ui.utc}`;
  return isDaily ? utc : `${moment.format(date)} (${t.ui.local})\n${utc}`;
}

/** The index of the value of a series that has no other; else none. */
function onlyValue(plot: uPlot, series: number): number[] {
  const found = [...(plot.data[series] ?? [])].flatMap((value, index) => (value == null ? [] : [index]));
  return found.length === 1 ? found : [];
}

/** @returns removes it */
export function drawPlot(element: HTMLElement, chart: ChartProps): () => void {
  let plot: uPlot | undefined;
  const draw = () => {
    plot?.destroy();
    plot = new uPlot(optionsOf(element, chart), dataOf(chart), element);
  };
  draw();
  const resize = new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height }));
  resize.observe(element);
  addEventListener('sluice-theme', draw);
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', draw);
  return () => {
    resize.disconnect();
    removeEventListener('sluice-theme', draw);
    dark.removeEventListener('change', draw);
    plot?.destroy();
  };
}

function dataOf({ times, series, stacked = false }: ChartProps): uPlot.AlignedData {
  const values = stacked ? stack(series).reverse() : series.map((each) => [...each.values]);
  return [[...times], ...values] as uPlot.AlignedData;
}

function optionsOf(
  element: HTMLElement,
  { times, series, unit, stacked = false }: ChartProps,
): uPlot.Options {
  const format = formatUnit[unit];
  const names = series.map((_, index) => `--series-${index % 6}`);
  const colours = readColours(element, ['--quiet', '--line', ...names]);
  const colour = (name: string): string => colours.get(name) ?? 'gray';
  const isDaily = times.every((time) => time % daySeconds === 0);
  const isLong = (times.at(-1) ?? 0) - (times[0] ?? 0) > 2 * daySeconds;
  const axisFormat = isDaily ? utcDay : isLong ? day : clock;
  const axis = {
    stroke: colour('--quiet'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: '12px system-ui',
  };
  const lines = series.map(({ name }, index) => {
    const stroke = colour(names[index] ?? '');
    return {
      label: name,
      stroke,
      width: 1.5,
      spanGaps: true,
      // A line shows several values; a single one would leave no mark.
      points: { show: true, size: 5, fill: stroke, filter: onlyValue },
      ...(stacked ? { fill: stroke.replace('rgb(', 'rgba(').replace(')', ', 0.3)') } : {}),
    };
  });
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    ...(isDaily ? { tzDate: (s: number) => uPlot.tzDate(new Date(s * 1000), 'UTC') } : {}),
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.05 : 1] } },
    axes: [
      {
        ...axis,
        size: 40,
        gap: 12,
        space: 64,
        ...(isDaily ? { incrs: dayIncrements } : {}),
        values: (_, at) => at.map((s) => axisFormat.format(new Date(s * 1000))),
      },
      {
        ...axis,
        size: 72,
        ...(unit === 'bytes' ? { incrs: byteIncrements } : {}),
        values: (_, at) => at.map(format),
      },
    ],
    series: [{}, ...(stacked ? lines.toReversed() : lines)],
    plugins: [readOut({ series, format, isDaily })],
  };
}

/** The values under the pointer, beside it. */
function readOut({
  series,
  format,
  isDaily,
}: {
  readonly series: ChartProps['series'];
  readonly format: (value: number) => string;
  readonly isDaily: boolean;
}): uPlot.Plugin {
  const box = document.createElement('div');
  box.className = 'readout';
  box.hidden = true;
  return {
    hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor;
        box.hidden = idx == null || left < 0;
        if (box.hidden || idx == null) return;
        const at = new Date((plot.data[0][idx] ?? 0) * 1000);
        const lines = series.map(
          ({ name, values }) => `${name}: ${values[idx] == null ? '–' : format(values[idx])}`,
        );
        box.textContent = [writeMoment(at, isDaily), ...lines].join('\n');
        const isRight = left > plot.over.clientWidth / 2;
        box.style.left = isRight ? 'auto' : `${left + 12}px`;
        box.style.right = isRight ? `${plot.over.clientWidth - left + 12}px` : 'auto';
      },
    },
  };
}

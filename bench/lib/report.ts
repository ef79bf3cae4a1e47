/** Tables for a terminal, with the goals beside the figures. */
import { type Case, sizeName } from './cases.ts';
import type { Floors } from './floors.ts';
import type { Figures } from './measure.ts';
import { targets } from './targets.ts';

const number = (value: number, digits = 0): string =>
  Number.isFinite(value)
    ? value.toLocaleString('en-US', { maximumFractionDigits: digits, minimumFractionDigits: digits })
    : '–';
const milliseconds = (value: number): string => number(value, value < 10 ? 2 : 0);
const times = (value: number): string => (Number.isFinite(value) ? `${value.toFixed(2)}×` : '–');

export function table(rows: readonly (readonly string[])[], leftColumns = 2): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, i) => (i < leftColumns ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
        .join('  '),
    )
    .join('\n');
}

/** One case: the CPU time beside that of every other target. */
export function caseTable(each: Case, figures: readonly Figures[]): string {
  const head = [
    'target',
    'durability',
    'CPU µs/op',
    'CPU ms/MiB',
    'op/s',
    'MiB/s',
    'p50 ms',
    'p99 ms',
    'peak MiB',
  ];
  const rows = figures.map((of) => [
    of.target,
    targets[of.target]?.durability ?? '',
    number(of.cpuMicrosPerStep, of.cpuMicrosPerStep < 1000 ? 1 : 0),
    number(of.cpuMillisPerMiB, 2),
    number(of.perSecond, of.perSecond < 100 ? 1 : 0),
    number(of.mibPerSecond, 1),
    milliseconds(of.p50),
    milliseconds(of.p99),
    number(of.peakMiB),
    ...figures.map((other) => (other === of ? '' : times(of.cpuMicrosPerStep / other.cpuMicrosPerStep))),
  ]);
  const named = [...head, ...figures.map(({ target }) => `÷ ${target}`)];
  return `${each.operation} ${sizeName(each.size)}\n${table([named, ...rows])}\n`;
}

export interface Result {
  readonly case: Case;
  readonly figures: readonly Figures[];
}

interface Goal {
  readonly text: string;
  readonly value: number;
  readonly bound: number;
  readonly isUpper: boolean;
}

/** Every goal whose targets were all in this run. */
export function goals(results: readonly Result[], floors: Floors): string {
  const of = (operation: string, size: number, target: string): Figures | undefined =>
    results
      .find((result) => result.case.operation === operation && result.case.size === size)
      ?.figures.find((figures) => figures.target === target);
  const [small, large] = [4096, 64 * 2 ** 20];
  const found: Goal[] = [];
  const add = (text: string, value: number | undefined, bound: number | undefined, isUpper = true): void => {
    if (value !== undefined && bound !== undefined) found.push({ text, value, bound, isUpper });
  };
  for (const operation of ['get', 'put'] as const) {
    const bare = of(operation, small, 'bare')?.cpuMicrosPerStep;
    const hashing = floors.signatureMicros + (operation === 'put' ? floors.hashSmallBodyMicros : 0);
    const text = `4 KiB ${operation}, noop: CPU µs at most 3 × bare node:http + ${hashing.toFixed(1)} of hashing`;
    add(text, of(operation, small, 'noop')?.cpuMicrosPerStep, bare && 3 * bare + hashing);
  }
  for (const operation of ['get', 'put', 'stat'] as const) {
    const peer = of(operation, small, 'versitygw')?.cpuMicrosPerStep;
    const text = `4 KiB ${operation}, embedded + file, same durability: CPU µs below versitygw's`;
    add(text, of(operation, small, 'sluice')?.cpuMicrosPerStep, peer);
  }
  add('64 MiB put: CPU ms per MiB below', of('put', large, 'sluice')?.cpuMillisPerMiB, 4);
  const rate = (figures: Figures | undefined): number | undefined =>
    figures && 1000 / figures.cpuMillisPerMiB;
  const bareGet = rate(of('get', large, 'bare-file'));
  add(
    '64 MiB get: MiB per CPU second at least half of bare node:http with a file',
    rate(of('get', large, 'sluice')),
    bareGet && bareGet / 2,
    false,
  );
  // One goal is read in two ways: by the throughput of a client, and by that of one core, which reads and writes beside the MD5.
  const md5 = 0.6 * floors.md5MiBPerSecond;
  const unsigned = of('put-unsigned', large, 'sluice');
  add('64 MiB unsigned put: MiB/s at least 60 % of one core at MD5', unsigned?.mibPerSecond, md5, false);
  add('64 MiB unsigned put: MiB per CPU second at least 60 % of MD5', rate(unsigned), md5, false);
  for (const operation of ['put', 'get'] as const) {
    const plain = of(operation, large, 'sluice')?.cpuMillisPerMiB;
    add(
      `64 MiB ${operation}, SSE-S3: CPU ms per MiB at most 1.6 × plain`,
      of(`${operation}-sse`, large, 'sluice')?.cpuMillisPerMiB,
      plain && 1.6 * plain,
    );
  }
  const rows = found.map(({ text, value, bound, isUpper }) => {
    const isReached = isUpper ? value <= bound : value >= bound;
    return [text, isReached ? 'reached' : 'MISSED', number(value, 2), isUpper ? '≤' : '≥', number(bound, 2)];
  });
  return rows.length === 0 ? '' : `goals\n${table([['', '', 'here', '', 'bound'], ...rows])}\n`;
}

/** What each case of the matrix shall cost: an absolute bound (µs an operation, ms a MiB), or a share of the peer's cost. */
const matrixBounds: Readonly<Record<string, { readonly cost: number } | { readonly share: number }>> = {
  'put-trailer 4 KiB': { cost: 300 },
  'get 4 KiB': { share: 0.8 },
  'stat 4 KiB': { share: 0.65 },
  'list-100 4 KiB': { share: 0.25 },
  'mixed-trailer 4 KiB': { share: 0.9 },
  'put-trailer 1 MiB': { cost: 3.6 },
  'get 1 MiB': { cost: 0.8 },
  'put-trailer 64 MiB': { cost: 3.6 },
  'get 64 MiB': { cost: 0.45 },
  'multipart-trailer 20 MiB': { cost: 4.4 },
};
const peer = 'versitygw';

/** One row for each case: CPU and, in brackets, throughput of every target; the goal; the ratio to the peer. */
export function matrix(results: readonly Result[]): string {
  // A target may be unable to run a case.
  const names = [...new Set(results.flatMap(({ figures }) => figures.map(({ target }) => target)))];
  const others = names.filter((name) => name !== peer);
  const rows = results.map(({ case: each, figures }) => {
    const isLarge = each.size >= 2 ** 20;
    const cost = (of: Figures): number => (isLarge ? of.cpuMillisPerMiB : of.cpuMicrosPerStep);
    const known = figures.find(({ target }) => target === peer);
    const name = `${each.operation} ${sizeName(each.size)}`;
    const bound = matrixBounds[name];
    const limit =
      bound === undefined
        ? Number.NaN
        : 'cost' in bound
          ? bound.cost
          : bound.share * (known === undefined ? Number.NaN : cost(known));
    return [
      `${name}, ${isLarge ? 'ms/MiB (MiB/s)' : 'µs (1/s)'}`,
      ...names.map((target) => {
        const of = figures.find((other) => other.target === target);
        if (of === undefined) return '';
        const rate = isLarge ? of.mibPerSecond : of.perSecond;
        return `${number(cost(of), isLarge ? 2 : 0)} (${number(rate)})`;
      }),
      number(limit, isLarge ? 2 : 0),
      ...others.map((target) => {
        const of = figures.find((other) => other.target === target);
        return of === undefined || known === undefined ? '' : times(cost(of) / cost(known));
      }),
    ];
  });
  const peaks = names.map((name) =>
    number(
      Math.max(...results.map(({ figures }) => figures.find(({ target }) => target === name)?.peakMiB ?? 0)),
    ),
  );
  const head = ['CPU of the server', ...names, 'goal', ...others.map((name) => `${name} ÷ ${peer}`)];
  return `${table([head, ...rows, ['peak RSS of a process, MiB', ...peaks]], 1)}\n`;
}

/** `sluice admin status`: the reply of GetStatus as a page of a terminal. */
import { formatBytes } from '../../base/text/byte-size.ts';
import { printable } from '../../base/text/printable.ts';
import type { AdminReply } from '../../protocol/admin/operations.ts';
import type { Plain } from '../../protocol/formats/json.ts';

type Status = Plain<AdminReply<'GetStatus'>>;

const pageWidth = 100;
const indent = '  ';
const gap = '  ';

/** The end of a longer text is cut. */
const cut = (text: string, width: number): string =>
  text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;

const line = (text: string): string => cut(`${indent}${printable(text)}`, pageWidth);

interface Column {
  readonly head: string;
  readonly isNumber?: boolean;
  /** The longest cell; the last column takes what is left of the page. */
  readonly max?: number;
}

function table(columns: readonly Column[], rows: readonly (readonly string[])[]): readonly string[] {
  const cells = [columns.map(({ head }) => head), ...rows.map((row) => row.map((cell) => printable(cell)))];
  const widths = columns.map(({ max = pageWidth }, index) =>
    Math.min(max, Math.max(...cells.map((row) => row[index]?.length ?? 0))),
  );
  return cells.map((row) => {
    const padded = columns.map(({ isNumber = false }, index) => {
      const width = widths[index] ?? 0;
      const text = cut(row[index] ?? '', width);
      return isNumber ? text.padStart(width) : text.padEnd(width);
    });
    return cut(`${indent}${padded.join(gap)}`.trimEnd(), pageWidth);
  });
}

export const formatSize = (bytes: number | undefined): string =>
  bytes === undefined ? '-' : formatBytes(bytes);

/** The two largest units, such as `3d 4h`. */
export function formatSeconds(seconds: number | undefined): string {
  if (seconds === undefined) return '-';
  const [days, hours, minutes] = [86_400, 3_600, 60].map((unit) => Math.floor(seconds / unit)) as [
    number,
    number,
    number,
  ];
  if (days > 0) return `${days}d ${hours % 24}h`;
  if (hours > 0) return `${hours}h ${minutes % 60}m`;
  return minutes > 0 ? `${minutes}m ${Math.floor(seconds % 60)}s` : `${Math.floor(seconds)}s`;
}

const number = (value: number): string =>
  value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 1 : 0 });
const plural = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;

function gatewayLines({ gateways }: Status): readonly string[] {
  if (gateways.length === 0) return [line('none has written a heartbeat')];
  const columns = [
    { head: 'HOST', max: 16 },
    { head: 'ADDRESS', max: 30 },
    { head: 'VERSION', max: 9 },
    { head: 'RUNTIME', max: 12 },
    { head: 'UP', isNumber: true },
    { head: 'PROCS', isNumber: true },
    { head: 'REQ/S', isNumber: true },
  ];
  const rows = table(
    columns,
    gateways.map((each) => [
      each.host,
      each.address,
      each.version,
      each.runtime,
      each.state === 'up' ? formatSeconds(each.uptimeSeconds) : each.state,
      `${each.processesUp}/${each.processes}`,
      number(each.requests.perSecond),
    ]),
  );
  const leads = gateways.map(({ leads: names }) =>
    names.length === 0 ? [] : wrap(`leads ${names.join(' ')}`, pageWidth - 2 * indent.length),
  );
  // The head of the table is its first line.
  return rows.flatMap((row, index) => [row, ...(leads[index - 1] ?? []).map((text) => line(indent + text))]);
}

/** Breaks at blanks. */
function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

function capacityLines({ pools, metadata }: Status): readonly string[] {
  const columns = [
    { head: 'OF', max: 10 },
    { head: 'BACKEND', max: 16 },
    { head: 'PLACE', max: 36 },
    { head: 'STATE', max: 12 },
    { head: 'USED', isNumber: true },
    { head: 'FREE', isNumber: true },
  ];
  const rows = table(columns, [
    ...pools.map(({ backend, cluster, pool, state, usedBytes, freeBytes }) => [
      'data',
      backend,
      pool === backend ? cluster : `${cluster}/${pool}`,
      state,
      formatSize(usedBytes),
      formatSize(freeBytes),
    ]),
    ...metadata.map(({ backend, name, state, usedBytes, freeBytes }) => [
      'metadata',
      backend,
      name,
      state,
      formatSize(usedBytes),
      formatSize(freeBytes),
    ]),
  ]);
  // Nodes that are not asked for their size have the same reason, as a rule.
  const reasons = new Set(metadata.flatMap(({ sizeUnknown }) => sizeUnknown ?? []));
  const why = [...reasons].flatMap((reason) =>
    wrap(`size not known: ${reason}`, pageWidth - 2 * indent.length),
  );
  return [...rows, ...why.map((text) => line(indent + text))];
}

function workLines(status: Status): readonly string[] {
  const { work, tasks } = status;
  if (work.length + tasks.length === 0) return [line('nothing is left')];
  return [
    ...(work.length === 0 ? [] : workerLines(status)),
    ...(tasks.length === 0 ? [] : taskLines(status)),
  ];
}

function taskLines({ tasks }: Status): readonly string[] {
  const columns = [
    { head: 'TASK', max: 12 },
    { head: 'OF', max: 28 },
    { head: 'STATE', max: 8 },
    { head: 'DONE', isNumber: true, max: 11 },
    { head: 'LEFT', isNumber: true, max: 11 },
    { head: 'RATE', isNumber: true, max: 8 },
    { head: 'ETA', isNumber: true, max: 8 },
  ];
  return table(
    columns,
    tasks.map(({ kind, name, state, done, left, isLeftCut = false, perSecond, etaSeconds }) => [
      kind,
      name,
      state,
      number(done.count),
      left === undefined ? '-' : `${isLeftCut ? '>' : ''}${number(left.count)}`,
      perSecond === undefined ? '-' : `${number(perSecond.count)}/s`,
      formatSeconds(etaSeconds),
    ]),
  );
}

function workerLines({ work }: Status): readonly string[] {
  const columns = [
    { head: 'WORKER', max: 20 },
    { head: 'STATE', max: 10 },
    { head: 'LEFT', isNumber: true },
    { head: 'OF', max: 12 },
    { head: 'RATE', isNumber: true },
    { head: 'OLDEST', isNumber: true },
    { head: 'ETA', isNumber: true },
  ];
  return table(
    columns,
    work.map(({ worker, state, left, isLeftCut = false, of = '', perSecond, oldestSeconds, etaSeconds }) => [
      worker,
      state,
      left === undefined ? '-' : `${isLeftCut ? '>' : ''}${number(left)}`,
      of,
      perSecond === undefined ? '-' : `${number(perSecond)}/s`,
      formatSeconds(oldestSeconds),
      formatSeconds(etaSeconds),
    ]),
  );
}

function requestLines({ requests }: Status): readonly string[] {
  const { requests: count, perSecond, refused, failed, p50Ms, p99Ms, processes } = requests;
  const durations =
    p50Ms === undefined || p99Ms === undefined ? '' : `, p50 ${number(p50Ms)} ms, p99 ${number(p99Ms)} ms`;
  return [
    line(
      `${plural(count, 'request')} (${number(perSecond)}/s) to ${number(processes)} ${processes === 1 ? 'process' : 'processes'}: ` +
        `${number(refused)} refused, ${number(failed)} failed${durations}`,
    ),
  ];
}

const errorLines = ({ errors }: Status): readonly string[] =>
  errors.length === 0
    ? [line('none is kept')]
    : errors.map(({ time, level, message, fields }) => {
        const { cause } = fields;
        // An error in a log has its message.
        const why = (cause as { readonly message?: unknown } | undefined)?.message ?? fields['code'];
        return line(
          `${time.slice(0, 19)}Z ${level.padEnd(5)} ${message}${why === undefined ? '' : `: ${String(why)}`}`,
        );
      });

/** At most 100 columns wide. */
export function formatStatus(status: Status): string {
  const { ok, time, gateways, warnings, missing, requests } = status;
  const count = warnings.length + missing.length;
  const heads = [
    ok ? 'healthy' : plural(count, 'problem'),
    plural(gateways.length, 'gateway'),
    `${time.slice(0, 19)}Z`,
  ];
  const sections: readonly (readonly [string, readonly string[]])[] = [
    ['GATEWAYS', gatewayLines(status)],
    ['CAPACITY', capacityLines(status)],
    [
      'HEALTH',
      ok
        ? [line('no warnings')]
        : [...warnings, ...missing.map((part) => `not known: ${part}`)].flatMap((text) =>
            wrap(printable(text), pageWidth - 2 * indent.length).map((each, index) =>
              line(index === 0 ? each : indent + each),
            ),
          ),
    ],
    ['WORK', workLines(status)],
    [`REQUESTS OF THE LAST ${requests.seconds} S`, requestLines(status)],
    ['LAST WARNINGS AND ERRORS OF THIS NODE', errorLines(status)],
  ];
  return [heads.join(', '), ...sections.flatMap(([head, lines]) => ['', head, ...lines])].join('\n');
}

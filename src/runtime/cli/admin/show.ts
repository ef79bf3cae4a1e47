/** Replies of the operator API as tables. */
import { printable } from '../../../base/text/printable.ts';

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Fields with Unix seconds. Other numbers of such names, such as a count, are far smaller. */
const timeName = /^(?:at|since|\w+(?:At|From))$/;
const [secondsMin, secondsMax] = [1e9, 1e11];

/** A time as ISO 8601 where the value is one. */
const readable = (name: string, value: unknown): unknown =>
  typeof value === 'number' && timeName.test(name) && value >= secondsMin && value < secondsMax
    ? new Date(value * 1000).toISOString().replace('.000Z', 'Z')
    : value;

function cell(value: unknown, name = ''): string {
  const shown = readable(name, value);
  if (shown === undefined) return '';
  return printable(typeof shown === 'string' ? shown : JSON.stringify(shown, readable));
}

function table(rows: readonly Json[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => cell(row[name], name))),
  ];
  const widths = columns.map((_, index) =>
    lines.reduce((most, line) => Math.max(most, line[index]?.length ?? 0), 0),
  );
  return lines
    .map((line) =>
      line
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function showReply(json: unknown): string {
  if (!isObject(json)) return cell(json);
  const lists = Object.entries(json).filter(([, value]) => Array.isArray(value) && value.every(isObject));
  const rest = Object.entries(json).filter(([name]) => !lists.some(([list]) => list === name));
  const width = rest.reduce((most, [name]) => Math.max(most, name.length), 0);
  const lines = rest.map(([name, value]) => `${name.padEnd(width)}  ${cell(value, name)}`);
  // The cast: `every(isObject)` above.
  const tables = lists.map(([name, rows]) =>
    (rows as readonly Json[]).length === 0 ? `no ${name}` : table(rows as readonly Json[]),
  );
  return [...tables, ...lines].join('\n');
}

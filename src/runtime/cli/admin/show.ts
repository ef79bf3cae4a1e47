/** Replies of the operator API as tables. */
import { printable } from '../../../base/text/printable.ts';

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const cell = (value: unknown): string =>
  printable(value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value));

function table(rows: readonly Json[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => cell(row[name]))),
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
  const lines = rest.map(([name, value]) => `${name.padEnd(width)}  ${cell(value)}`);
  // The cast: `every(isObject)` above.
  const tables = lists.map(([name, rows]) =>
    (rows as readonly Json[]).length === 0 ? `no ${name}` : table(rows as readonly Json[]),
  );
  return [...tables, ...lines].join('\n');
}

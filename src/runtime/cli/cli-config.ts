/** `sluice config`: every setting with its value, default and source, secrets masked. */
import { toFlag } from '../../config/read/flags.ts';
import { type Found, masked } from '../../config/read/read.ts';
import type { Setting } from '../../config/read/setting.ts';
import { type SettingName, settings } from '../../config.ts';

interface Row {
  readonly name: string;
  readonly flag: string;
  readonly value: string | null;
  readonly default: string | null;
  readonly source: string;
  readonly doc: string;
}

function toRow({ name, text, source }: Found): Row {
  const setting: Setting<unknown> = settings[name as SettingName];
  const value = setting.secret === true && text !== undefined ? masked : text;
  return {
    name,
    flag: toFlag(name as SettingName),
    value: value ?? null,
    default: setting.fallback ?? null,
    source,
    doc: setting.doc,
  };
}

const formatValue = (text: string | null): string =>
  text === null ? '(unset)' : text === '' ? '(empty)' : text;

export function showConfig(found: readonly Found[], asJson: boolean): string {
  const rows = found.map(toRow);
  if (asJson) return `${JSON.stringify(rows, undefined, 2)}\n`;
  const cells = [
    ['SETTING', 'VALUE', 'SOURCE', 'DEFAULT'],
    ...rows.map((row) => [row.name, formatValue(row.value), row.source, formatValue(row.default)]),
  ];
  const widths = [0, 1, 2].map((column) => Math.max(...cells.map((cell) => (cell[column] ?? '').length)));
  const lines = cells.map((cell) =>
    cell
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

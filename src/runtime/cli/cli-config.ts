/** `sluice config`: every setting with its value, default and source, secrets masked. */
import { toFlag } from '../../config/read/flags.ts';
import type { Found } from '../../config/read/read.ts';
import { showSetting } from '../../config/read/read-config.ts';
import type { SettingName } from '../../config.ts';

const toRow = (found: Found) => {
  const { name, ...shown } = showSetting(found);
  return { name, flag: toFlag(name as SettingName), ...shown };
};

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

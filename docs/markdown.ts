/** The writer of the reference pages. */

export const code = (text: string): string => `\`${text}\``;

/** A bar would end the cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;

/** A table without an empty line around it. */
export const table = (columns: readonly string[], rows: readonly (readonly string[])[]): string =>
  [line(columns), `|${columns.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');

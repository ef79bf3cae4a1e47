/** Sizes in bytes as people write them: `512MiB`, `10GB`, `4096`. */

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/** `1.5 GiB`: one decimal below 100, in the largest binary unit that gives 1 or more. */
export function formatBytes(bytes: number): string {
  let [amount, unit] = [bytes, 0];
  for (; amount >= 1024 && unit < units.length - 1; unit += 1) amount /= 1024;
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[unit]}`;
}

const unitBytes: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['B', 1],
  ...['K', 'M', 'G', 'T', 'P'].flatMap((letter, index): [string, number][] => [
    [`${letter}iB`, 1024 ** (index + 1)],
    [`${letter}B`, 1000 ** (index + 1)],
  ]),
]);
const size = /^(\d{1,16}(?:\.\d{1,3})?)([KMGTP]?i?B)?$/;

/** The source of a regular expression that every size matches. */
export const sizePattern = '^\\d{1,16}(\\.\\d{1,3})?([KMGTP]?i?B)?$';

/** Bytes of `512MiB` (binary), `10GB` (decimal), `4096` or `1.5GiB`; undefined when the text is no size. */
export function parseBytes(text: string): number | undefined {
  const [, count, unit = ''] = size.exec(text) ?? [];
  const factor = unitBytes.get(unit);
  if (count === undefined || factor === undefined) return undefined;
  // Half a byte is a mistake.
  if (factor === 1 && count.includes('.')) return undefined;
  return Math.floor(Number(count) * factor);
}

/** Durations as Go writes them, also in days. */

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const duration = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+$/;

/** Milliseconds of `90s`, `1h30m`, `30d` or `0`; undefined when the text is no duration. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (text.length > 40 || !duration.test(text)) return undefined;
  let sum = 0;
  for (const [, count = '', unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)/gy)) {
    sum += Number(count) * (unitMs[unit] ?? 0);
  }
  return sum;
}

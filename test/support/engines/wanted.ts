/** Whether the tests of an engine run here. */

/** `npm test` sets this to skip the engines; `npm run test:all` runs them. */
export const withoutEngines = { TEST_ENGINES: 'none' } as const;
const isLeftOut = process.env['TEST_ENGINES'] === withoutEngines.TEST_ENGINES;

/**
 * The reason why the tests of an engine are skipped; undefined if they run. On CI an engine that cannot run makes them fail.
 * @param needs the programs or settings that are required
 */
export function missingEngine(isHere: boolean, needs: string): string | undefined {
  if (isLeftOut) return 'left out by TEST_ENGINES=none';
  return isHere || process.env['CI'] !== undefined ? undefined : needs;
}

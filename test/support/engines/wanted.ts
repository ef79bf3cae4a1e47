/** Whether the tests of an engine run here. */

/** How `npm test` leaves the engines out; `npm run test:all` runs them. */
export const withoutEngines = { TEST_ENGINES: 'none' } as const;
const isLeftOut = process.env['TEST_ENGINES'] === withoutEngines.TEST_ENGINES;

/**
 * Why the tests of an engine are skipped; undefined where they run. On CI an engine that cannot run makes them fail.
 * @param needs what has to be installed, or set
 */
export function missingEngine(isHere: boolean, needs: string): string | undefined {
  if (isLeftOut) return 'left out by TEST_ENGINES=none';
  return isHere || process.env['CI'] !== undefined ? undefined : needs;
}

/** Names of test files that take minutes. They begin first, because one that begins last runs on alone, and each turn of CI has some of them. */
export const slowestFiles = [
  'wide-column-ring',
  'axe',
  's3fs',
  'engines',
  'linearizable',
  'paused-leaders',
  'kill-engines',
];

/** @param path of any form @returns its place among them, or their number */
export function placeOf(path: string): number {
  const at = slowestFiles.findIndex((name) => path.endsWith(`/${name}.test.ts`));
  return at === -1 ? slowestFiles.length : at;
}

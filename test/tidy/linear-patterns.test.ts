/**
 * Every regular expression in `src` takes linear time on every text: a checker looks for exponential and for
 * polynomial backtracking, such as that of `/[ \t]+$/`, which starts again at every blank of a long run.
 */
import { check } from 'recheck';
import { expect, test, vi } from 'vitest';
import { adminOperationNames } from '../../src/protocol/admin/operations.ts';
import { matchAdmin } from '../../src/protocol/admin-target.ts';
import { constructedPatterns, constructsPatterns, literalPatterns, type Pattern } from './patterns.ts';
import { sourceFiles } from './source-files.ts';

/** Files that construct patterns, and the import or call that makes them do it. */
const constructing: Readonly<Record<string, () => Promise<unknown>>> = {
  'src/auth/policy/statement.ts': () => import('../../src/auth/policy/statement.ts'),
  'src/config/network.ts': () => import('../../src/config/network.ts'),
  'src/protocol/admin-target.ts': async () => {
    expect(adminOperationNames.length).toBeGreaterThan(0);
    for (const method of ['GET', 'PUT', 'POST', 'DELETE']) matchAdmin(method, '/none');
  },
  'src/protocol/formats/xml-parse.ts': () => import('../../src/protocol/formats/xml-parse.ts'),
};

/**
 * A bounded repetition counts as unbounded, because `[a-z]{1,4096}` on 4 KB of text is as slow as `[a-z]+`. The checker
 * also needs less time for it.
 */
const widened = (source: string): string =>
  source
    .replace(/\{(\d{1,6}),(\d{1,6})\}/g, (whole, least: string, most: string) =>
      Number(most) <= 4 ? whole : Number(least) > 1 ? '{2,}' : least === '1' ? '+' : '*',
    )
    .replace(/\{(\d{1,6})\}/g, (whole, count: string) => (Number(count) <= 4 ? whole : '{4}'));

/** The reason why a pattern is not linear; undefined for a linear one. */
async function problemOf({ source, flags, at }: Pattern): Promise<string | undefined> {
  const found = await check(widened(source), flags, { timeout: 250_000, attackTimeout: null });
  if (found.status === 'safe') return undefined;
  const shown = `${at}: /${source}/${flags}`;
  return found.status === 'vulnerable'
    ? `${shown} takes ${found.complexity.summary} time on ${found.attack.pattern.slice(0, 200)}`
    : `${shown} could not be proved linear: ${found.error.kind}`;
}

async function problemsOf(patterns: readonly Pattern[]): Promise<string[]> {
  const distinct = new Map(patterns.map((each) => [`/${each.source}/${each.flags}`, each]));
  const problems: string[] = [];
  await Promise.all(
    [...distinct.values()].map(async (each) => {
      const problem = await problemOf(each);
      if (problem !== undefined) problems.push(problem);
    }),
  );
  return problems.sort();
}

test('the checker finds polynomial and exponential backtracking, also in bounded repetitions', async () => {
  const patterns = [
    /[ \t\r\n]+$/,
    /^bytes\s*=\s*(\d*)\s*-\s*(\d*)$/i,
    /^(a+)+$/,
    /^a{1,900}a{1,900}$/,
    /^a+$/,
  ];
  const problems = await problemsOf(patterns.map(({ source, flags }) => ({ source, flags, at: 'here' })));
  expect(problems.map((problem) => problem.split(' takes ')[0])).toEqual([
    'here: /[ \\t\\r\\n]+$/',
    'here: /^(a+)+$/',
    'here: /^a{1,900}a{1,900}$/',
    'here: /^bytes\\s*=\\s*(\\d*)\\s*-\\s*(\\d*)$/i',
  ]);
});

test('every file that constructs a regular expression is known, so that what it constructs is checked', () => {
  expect(sourceFiles().filter(constructsPatterns)).toEqual(Object.keys(constructing).sort());
});

test('every regular expression takes linear time', { timeout: 900_000 }, async () => {
  const literals = sourceFiles().flatMap((path) => literalPatterns(path));
  expect(literals.length).toBeGreaterThan(100);
  const constructed: Pattern[] = [];
  for (const [path, work] of Object.entries(constructing)) {
    // Reset the module cache, so that an import evaluates the module again.
    vi.resetModules();
    const found = await constructedPatterns(path, work);
    expect(found.length, path).toBeGreaterThan(0);
    constructed.push(...found);
  }
  expect(await problemsOf([...literals, ...constructed])).toEqual([]);
});

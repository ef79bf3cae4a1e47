/** No test fails because the machine is busy: what waits for an event waits for a minute at least, and no test has little time. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';

const waitMsMin = 60_000;
/** `testTimeout` of vitest.config.ts. */
const testMs = 900_000;
/** An upper bound of real time below this depends on what else the machine does. */
const boundMsMin = 10_000;
const root = join(import.meta.dirname, '../..');

interface Node {
  readonly type: string;
  readonly start: number;
  readonly name?: string;
  readonly value?: unknown;
  readonly callee?: Node;
  readonly object?: Node;
  readonly property?: Node;
  readonly key?: Node;
  readonly properties?: readonly Node[];
  readonly arguments?: readonly Node[];
}

/** The name of a call: `vi.waitFor`, `test` for `test.each(rows)(…)`, and `…poll` for a method of anything else. */
function nameOf({ type, name = '', callee, object, property }: Node): string {
  if (type === 'Identifier') return name;
  if (type === 'CallExpression') return callee === undefined ? '' : nameOf(callee).split('.', 1).join();
  return object?.type === 'Identifier' ? `${object.name}.${property?.name}` : `…${property?.name}`;
}

/** The number that is written as the time of a call, at the option `timeout` or alone. */
function timeoutOf(options: Node | undefined): number | undefined {
  if (typeof options?.value === 'number') return options.value;
  const found = options?.properties?.find(({ key }) => key?.name === 'timeout')?.value as Node | undefined;
  return typeof found?.value === 'number' ? found.value : undefined;
}

function* callsIn(node: unknown): Generator<Node> {
  if (typeof node !== 'object' || node === null) return;
  // The cast: the nodes of a syntax tree have these fields, and arrays of them have none.
  if ((node as Node).type === 'CallExpression') yield node as Node;
  for (const child of Object.values(node)) yield* callsIn(child);
}

/** What is wrong with the waits of a source text, by line. */
function findHasty(source: string): readonly string[] {
  const wrong: string[] = [];
  for (const match of source.matchAll(/expect\(performance\.now\(\) - \w+\)\.toBeLessThan\(([\d_]+)\)/g))
    if (Number(match[1]?.replaceAll('_', '')) < boundMsMin)
      wrong.push(`${source.slice(0, match.index).split('\n').length}: a bound of ${match[1]} ms`);
  if (!/wait(For|Until)|poll|timeout:|, [\d_]{3,}\)/.test(source)) return wrong;
  for (const call of callsIn(parseAst(source, { lang: 'ts' }))) {
    const args = call.arguments ?? [];
    const line = source.slice(0, call.start).split('\n').length;
    const name = call.callee === undefined ? '' : nameOf(call.callee);
    const timeout = timeoutOf(args.at(-1));
    const isWait = /^vi\.wait(For|Until)$/.test(name);
    if (isWait && args.length < 2) wrong.push(`${line}: ${name} without options waits for one second`);
    if ((isWait || /(poll|\.waitFor|…waitFor)$/.test(name)) && (timeout ?? waitMsMin) < waitMsMin)
      wrong.push(`${line}: ${name} waits for ${timeout} ms only`);
    if (/^(test|it)(\.|$)/.test(name) && (timeout ?? testMs) < testMs)
      wrong.push(`${line}: a test has ${timeout} ms only`);
  }
  return wrong;
}

test('every wait for an event takes a minute at least, no test has less time than all, and no bound of real time is short', () => {
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/^(mutation|vectors)|node_modules|waits\.test/.test(file))
    .sort();
  expect(files.length).toBeGreaterThan(500);
  const wrong = files.flatMap((file) =>
    findHasty(readFileSync(join(root, 'test', file), 'utf8')).map((each) => `test/${file}:${each}`),
  );
  expect(wrong).toEqual([]);
});

test('hasty waits are found', () => {
  const hasty = [
    'await vi.waitFor(() => seen());',
    'await vi.waitFor(() => seen(), { timeout: 5_000, interval: 10 });',
    'await expect.poll(seen, { timeout: 10_000 }).toBe(1);',
    "await page.getByText('a').waitFor({ timeout: 20_000 });",
    "test('a', async () => {}, 30_000);",
    "test.each([1])('a', async () => {}, 30_000);",
    'expect(performance.now() - began).toBeLessThan(1_500);',
  ];
  for (const line of hasty) expect(findHasty(line), line).toHaveLength(1);
  expect(findHasty('await vi.waitFor(() => seen(), until); await vi.waitFor(seen, 60_000);')).toEqual([]);
});

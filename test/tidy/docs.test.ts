/** Everything that the docs refer to exists: files, folders, links, and the tests of the decisions. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const folders = ['bench', 'deploy', 'docs', 'engines', 'src', 'test'];
const filesIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => !path.includes('node_modules'))
    .map((path) => join(folder, path));
const files = folders.flatMap(filesIn);
const docs = [...readdirSync(root), ...files].filter((path) => path.endsWith('.md'));
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');

test.each(docs)('%s names only what is there', (doc) => {
  const text = textOf(doc);
  const paths = [...text.matchAll(/`((?:bench|deploy|docs|engines|src|test)\/[\w./-]+)`/g)].map(
    ([, path = '']) => path,
  );
  const links = [...text.matchAll(/\]\(([^)#:\s]+)(?:#[^)]*)?\)/g)].map(([, path = '']) =>
    relative(root, join(root, dirname(doc), path)),
  );
  expect([...paths, ...links].filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test('README.md names everything that it links and the package leaves out', () => {
  const text = textOf('README.md');
  const { files: rules } = JSON.parse(textOf('package.json')) as { readonly files: readonly string[] };
  const covers = (rule: string, path: string) => path === rule || path.startsWith(`${rule}/`);
  const isPacked = (path: string) =>
    rules.some((rule) => covers(rule, path)) &&
    !rules.some((rule) => rule.startsWith('!') && covers(rule.slice(1), path));
  const links = [...text.matchAll(/\]\(([^)#:\s]+)(?:#[^)]*)?\)/g)].map(([, path = '']) => path);
  const paragraph = text.slice(text.indexOf('[ARCHITECTURE.md]'));
  const named = [...paragraph.matchAll(/`([\w./-]+)`|\]\(([^)]+)\)/g)].map(
    (found) => found[1] ?? found[2] ?? '',
  );
  expect(links.filter((path) => !isPacked(path) && !named.some((each) => covers(each, path)))).toEqual([]);
});

/** The anchor that GitHub gives to a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-');

function anchorsOf(doc: string): ReadonlySet<string> {
  const text = textOf(doc).replace(/^```[\s\S]*?^```/gm, '');
  return new Set([...text.matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = '']) => anchorOf(heading)));
}

test.each(docs)('the anchors of links in %s are headings of their pages', (doc) => {
  const links = [...textOf(doc).matchAll(/\]\(([^)#:\s]*)#([^)\s]+)\)/g)];
  const wrong = links.filter(([, path = '', anchor = '']) => {
    const page = path === '' ? doc : join(dirname(doc), path);
    return page.endsWith('.md') && existsSync(join(root, page)) && !anchorsOf(join(page)).has(anchor);
  });
  expect(wrong.map(([link]) => link)).toEqual([]);
});

test('every page of docs/operations is in the table of docs/operations.md', () => {
  const listed = [...textOf('docs/operations.md').matchAll(/\]\((operations\/[\w-]+\.md)\)/g)].map(
    ([, path = '']) => path,
  );
  expect(listed.toSorted()).toEqual(
    readdirSync(join(root, 'docs/operations'))
      .map((name) => `operations/${name}`)
      .toSorted(),
  );
});

test('every decision has a unique number and an existing test', () => {
  const rows = textOf('docs/gaps.md')
    .split('\n')
    .filter((line) => /^\| [A-Z0-9]/.test(line))
    .map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));
  const names = rows.flatMap(([, , , , tests = '']) =>
    [...tests.matchAll(/`([\w./-]+\.test\.ts)`/g)].map(([, name = '']) => name),
  );
  expect(names.length).toBeGreaterThan(rows.length / 2);
  const isThere = (name: string): boolean => files.some((path) => path === name || path.endsWith(`/${name}`));
  expect(names.filter((name) => !isThere(name))).toEqual([]);
  // Those of the design's list keep its numbers: one of them may have several rows.
  const numbers = rows.map(([, number = '']) => number).filter((number) => /^[A-Z]/.test(number));
  expect(numbers.filter((number, index) => numbers.indexOf(number) !== index)).toEqual([]);
});

interface Node {
  readonly type?: string;
  readonly id?: Node;
  readonly key?: Node;
  readonly name?: string;
  readonly shorthand?: boolean;
}

/** The names that a file declares: functions, values, types, methods, and the fields of classes, types and tables. */
function declaredIn(path: string): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    // The cast: the nodes of a syntax tree have these fields, and arrays of them have none.
    const { type = '', id, key, shorthand } = node as Node;
    if (/Declar|Method|Property/.test(type) && shorthand !== true) names.add((id ?? key)?.name ?? '');
    for (const child of Object.values(node)) visit(child);
  };
  visit(parseAst(textOf(path), { lang: 'ts' }));
  return names;
}

test('docs/where.md names files and functions that are there', () => {
  const page = textOf('docs/where.md');
  const inSource = (path: string): string => (/^(?:console|test)\//.test(path) ? path : `src/${path}`);
  const file = /`([\w./-]+\.ts)`/g;
  const paths = [...page.matchAll(file)].map(([, path = '']) => path);
  expect(paths.filter((path) => !existsSync(join(root, inSource(path))))).toEqual([]);
  // `a`, `b` and `c` of `file.ts`
  const phrases = page.matchAll(/((?:`#?\w+`(?:, then |, | and | or ))*`#?\w+`) of `([\w./-]+\.ts)`/g);
  const named = [...phrases].flatMap(([, names = '', path = '']) =>
    [...names.matchAll(/`#?(\w+)/g)].map(([, name = '']) => ({ path: inSource(path), name })),
  );
  expect(named.length).toBeGreaterThan(300);
  const files = new Map(paths.map((path) => [inSource(path), declaredIn(inSource(path))]));
  expect(named.filter(({ path, name }) => files.get(path)?.has(name) !== true)).toEqual([]);
  // Names without a file stand beside one that declares them: in the same row, or in the same list.
  const places = page.split(/^(?=\| |###? )/m);
  const unplaced = places.flatMap((place) => {
    const beside = [...place.matchAll(file)].map(([, path = '']) => files.get(inSource(path)));
    return [...place.matchAll(/`#?(\w*[a-z][A-Z]\w*)`/g)]
      .map(([, name = '']) => name)
      .filter((name) => !beside.some((declared) => declared?.has(name)));
  });
  expect(unplaced).toEqual([]);
});

test('docs/security.md names tests by titles that they have', () => {
  const groups = textOf('docs/security.md').split('## Groups 15 to 22')[1]?.split('\n## ')[0] ?? '';
  const named = [...groups.matchAll(/`(test\/[\w./-]+\.test\.ts)`: ((?:"[^"]+"(?:, )?)+)/g)].flatMap(
    ([, path = '', titles = '']) =>
      [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => [path, title] as const),
  );
  expect(named.length).toBeGreaterThan(40);
  expect(named.filter(([path, title]) => !textOf(path).includes(title))).toEqual([]);
});

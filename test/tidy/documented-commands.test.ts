/** The requests of the operator API and the commands of `sluice admin` on the operators' pages exist. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { findAdminCommand, readArguments } from '../../src/runtime/cli/commands.ts';
import { assertTransferOptions, isTransfer } from '../../src/runtime/cli/iam-transfer.ts';
import { blockOf, routines } from '../support/documented-routines.ts';

const root = join(import.meta.dirname, '../..');
const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs/operations')).map((name) => `docs/operations/${name}`),
  ...[
    'backends',
    'ceph',
    'clusters',
    'comparison',
    'operations',
    'recovery',
    'runbook',
    'running',
    'security',
    'status',
    'upstream',
    'wide-column',
  ].map((name) => `docs/${name}.md`),
  'deploy/README.md',
  'deploy/observability/README.md',
  'engines/README.md',
].map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

const rows = adminOperationNames.map(describeAdminOperation);
/** Requests that are not of the operator API: probes, and those of the public API. */
const others = /^\/(?:healthz|readyz|metrics|\?|<|$)/;

/** Whether a row has the path, in which `{name}`, `<name>`, `$NAME` and any word may stand for a parameter. */
const hasPath = (row: string, asked: string): boolean => {
  const [parts, given] = [row.split('/'), asked.split('/')];
  return (
    parts.length === given.length &&
    parts.every((part, index) => (part.startsWith(':') ? given[index] !== '' : part === given[index]))
  );
};

/** @returns what is wrong with a request */
function faultOf(method: string, target: string): string | undefined {
  const [path = '', query = ''] = target.replace('[?', '?').replace(/\]$/, '').split('?');
  const full = path.startsWith('/admin/v1') ? path : `/admin/v1${path}`;
  const row = rows.find((each) => each.method === method && hasPath(each.path, full));
  if (row === undefined) return 'there is no such operation';
  const names = query.split('&').flatMap((each) => (each === '' ? [] : [each.split('=')[0] ?? '']));
  const unknown = names.filter((name) => !(name in row.query));
  return unknown.length === 0 ? undefined : `it has no parameter ${unknown.join(', ')}`;
}

test('every request of the operator API on a page exists, with its parameters', () => {
  const found = pages.flatMap(({ path: page, text }) =>
    [...text.matchAll(/\b(GET|PUT|POST|DELETE) ["']?(\/[^\s`'"|,;)]*)/g)].map(
      ([, method = '', target = '']) => ({ page, method, target: target.replace(/[.:]$/, '') }),
    ),
  );
  const wrong = found
    .filter(({ target }) => !others.test(target))
    .flatMap(({ page, method, target }) => {
      const fault = faultOf(method, target);
      return fault === undefined ? [] : [`${page}: ${method} ${target}: ${fault}`];
    });
  expect(found.length).toBeGreaterThan(100);
  expect(wrong).toEqual([]);
});

/** Words as a shell splits them; `\\` at the end of a line continues it. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, plain]) => single ?? double ?? plain ?? '',
  );

test('every command of `sluice admin` on a page exists, with its names and options', () => {
  const found = pages.flatMap(({ path: page, text }) =>
    [...text.matchAll(/sluice (?:-- )?admin ([^`\n]+)/g)].map(([, rest = '']) => ({
      page,
      // A file that an option names need not be there.
      words: wordsOf(
        rest
          .replace(/ [#>|].*$/, '')
          .replace(/ @\S*/g, ' text')
          .replace(/ --file \S+/g, ` --file ${join(root, 'package.json')}`),
      ),
    })),
  );
  const commands = found.filter(({ words }) => words.length > 0 && !words.includes('--help'));
  const wrong = commands.flatMap(({ page, words }) => {
    if (isTransfer(words)) {
      const read = (): void => assertTransferOptions(words);
      expect(read, page).not.toThrow();
      return [];
    }
    const command = findAdminCommand(words);
    const line = `${page}: sluice admin ${words.join(' ')}`;
    if (command === undefined) return [`${line}: there is no such command`];
    const isShort = !command.words.every((word, index) => words[index] === word);
    try {
      readArguments(command, words.slice(command.words.length - (isShort ? 1 : 0)));
      return [];
    } catch (cause) {
      return [`${line}: ${(cause as Error).message}`];
    }
  });
  expect(commands.length).toBeGreaterThan(5);
  expect(wrong).toEqual([]);
});

test('every routine of test/support/documented-routines.ts has its block on its page', () => {
  const names = Object.keys(routines);
  expect(names.filter((name) => blockOf(name) === undefined)).toEqual([]);
});

test('the comparison has no empty cell, and a command, a page or the word "missing" for each routine here', () => {
  const tables = readFileSync(join(root, 'docs/comparison.md'), 'utf8').split('\n');
  const rows = tables
    .filter((line) => /^\| [a-z]/.test(line))
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim())
        .slice(1, -1),
    );
  const routinesHere = rows.filter((cells) => cells.length === 5);
  expect(routinesHere.length).toBeGreaterThan(50);
  expect(rows.filter((cells) => ![3, 5].includes(cells.length) || cells.includes(''))).toEqual([]);
  const vague = routinesHere.filter(
    ([, , , , here = '']) =>
      !/`(?:sluice|SVC_|\/|npm)|\]\(|API|protocol|worker|^missing|service manager|package manager/.test(here),
  );
  expect(vague).toEqual([]);
});

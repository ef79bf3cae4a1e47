/** Rules of the console's code that no compiler or linter checks. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const files = readdirSync(join(root, 'console'), { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(tsx?|css|html)$/.test(name))
  .map((name) => `console/${name}`);

/** What would turn a text into markup, a script or a style. */
const sinks =
  /\b(?:innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|DOMParser|createContextualFragment|document\.write|srcdoc|javascript:)|\beval\(|new Function\b|<style|\sstyle="/;

test('no text of the console becomes markup, a script or a style', () => {
  expect(sinks.test('element.innerHTML = key')).toBe(true);
  const hits = files
    .filter((path) => path.endsWith('.ts') || path.endsWith('.tsx') || path.endsWith('.html'))
    .filter((path) => sinks.test(readFileSync(join(root, path), 'utf8')));
  expect(hits).toEqual([]);
});

test('colours come from custom properties', () => {
  const sheets = files.filter((path) => path.endsWith('.css') && !path.endsWith('1-tokens.css'));
  const coloured = sheets.filter((path) =>
    /#(?!fff\b|0006\b)[0-9a-f]{3,8}\b/i.test(readFileSync(join(root, path), 'utf8')),
  );
  expect(coloured).toEqual([]);
});

test('the console compiles', () => {
  const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'console'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect([status, stdout]).toEqual([0, '']);
});

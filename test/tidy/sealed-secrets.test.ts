/** The list of what is sealed under the master key, which an operator who replaces that key relies on, is complete. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sourceFiles } from './source-files.ts';

test('`Sealer` names each file that seals or opens a secret under the master key', () => {
  const using = sourceFiles()
    .filter((path) => !path.startsWith('src/backends/'))
    .filter((path) => /\bsealer\.(?:seal|open)\(/.test(readFileSync(path, 'utf8')))
    .map((path) => path.slice('src/'.length));
  const declared = readFileSync('src/ports/cryptography.ts', 'utf8');
  const comment = declared.slice(0, declared.indexOf('export interface Sealer')).split('/**').at(-1) ?? '';
  const named = [...comment.matchAll(/`([a-z/-]+\.ts)`/g)].map(([, path = '']) => path);
  expect(named.filter((path) => !path.includes('.test.')).toSorted()).toEqual(using.toSorted());
});

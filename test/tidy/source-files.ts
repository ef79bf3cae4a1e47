/** All source files, by path from the root. */
import { readdirSync } from 'node:fs';

export const sourceFiles = (folder = 'src'): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`)
    .sort();

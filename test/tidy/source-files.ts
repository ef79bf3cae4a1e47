/** All source files, by path from the root; those of packages, which some folders of tests install, are not ours. */
import { readdirSync } from 'node:fs';

export const sourceFiles = (folder = 'src'): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name) && !name.includes('node_modules/'))
    .map((name) => `${folder}/${name}`)
    .sort();

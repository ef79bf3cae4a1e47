/**
 * Removes the declarations that no entry of the package leads to, after `tsc` has written one for each module: an
 * application can import the entries only. Run by `npm run build`.
 */
import { globSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly exports: Readonly<Record<string, { readonly types: string }>>;
};

/** Relative modules of `from '…'` and `import('…')`. */
const specifiers = /(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g;

const reached = new Set<string>();
const pending = Object.values(exports).map(({ types }) => join(root, types));
for (const file of pending) {
  if (reached.has(file)) continue;
  reached.add(file);
  // A declaration that is missing fails the build here.
  for (const [, specifier = ''] of readFileSync(file, 'utf8').matchAll(specifiers))
    pending.push(join(dirname(file), specifier.replace(/\.[jt]s$/, '.d.ts')));
}

for (const name of globSync('dist/**/*.d.ts', { cwd: root }))
  if (!reached.has(join(root, name))) rmSync(join(root, name));

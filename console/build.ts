/**
 * Builds the console into a folder: `page.html` (a template that the gateway fills in), `assets/` with names that contain the hash of their
 * content, each beside its gzip form, `manifest.json`, and the licences of the packages in it. Run by `npm run build:console`.
 */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { transform } from 'lightningcss';
import { type OutputChunk, type Plugin, rolldown } from 'rolldown';
import {
  adminOperationNames,
  describeAdminOperation,
  isBatchable,
} from '../src/protocol/admin/operations.ts';

const here = import.meta.dirname;
const root = dirname(here);
export const consoleFolder = join(root, 'dist/console');

/** The operations that the sources name in quotes. */
async function usedOperations() {
  const files = (await readdir(here, { recursive: true })).filter((name) => /\.tsx?$/.test(name));
  const sources = await Promise.all(files.map((name) => readFile(join(here, name), 'utf8')));
  const quoted = new Set(sources.flatMap((source) => source.match(/(?<=')[A-Z]\w+(?=')/g) ?? []));
  return adminOperationNames.filter((name) => quoted.has(name));
}

/**
 * Method and path of each operation that a page uses, because every page loads them. The table itself has the readers of bodies too, which
 * a page does not need. The filter spares a call for each module: the bundler warns of plugins that take a part of its time.
 */
const operations = (names: Awaited<ReturnType<typeof usedOperations>>): Plugin => ({
  name: 'operations',
  load: {
    filter: { id: /[\\/]console[\\/]app[\\/]operations\.ts$/ },
    handler() {
      const lines = names.map((name) => {
        const { method, path } = describeAdminOperation(name);
        return [name, `${method} ${path.replace('/admin/v1', '')}`];
      });
      const batchExceptions = names.filter(
        (name) => isBatchable(name) !== (describeAdminOperation(name).method === 'GET'),
      );
      const values = { operations: Object.fromEntries(lines), batchExceptions };
      return {
        code: Object.entries(values)
          .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
          .join('\n'),
        moduleType: 'js',
      };
    },
  },
});

/** What every page needs, in two files instead of a dozen: the libraries change less often than the kit. */
const firstChunks = [
  { name: 'libraries', test: /node_modules\/(?:preact|@tanstack\/(?!virtual-core|react-virtual)|use-sync)/ },
  {
    name: 'kit',
    test: /\/console\/(?:app|text|ui)\/(?!(?:table|plot|chart|chart-data|de|plural|logins|mfa-devices|forbidden|selection|access-keys|secret-once|csv|state-chip|limits|diff|stale)\.tsx?$)/,
  },
];

async function bundle(): Promise<readonly OutputChunk[]> {
  const build = await rolldown({
    input: { main: join(here, 'main.tsx') },
    platform: 'browser',
    tsconfig: false,
    resolve: {
      alias: {
        'react-dom/client': 'preact/compat/client',
        'react-dom': 'preact/compat',
        'react/jsx-runtime': 'preact/jsx-runtime',
        react: 'preact/compat',
      },
    },
    transform: {
      define: { 'process.env.NODE_ENV': '"production"' },
      jsx: { runtime: 'automatic', importSource: 'preact' },
      target: 'es2024',
    },
    plugins: [operations(await usedOperations())],
    treeshake: { moduleSideEffects: false },
    onLog: (level, log) => {
      // TanStack marks its modules for servers that render; this page has none.
      if (level === 'warn' && log.code !== 'MODULE_LEVEL_DIRECTIVE') throw new Error(log.message);
    },
  });
  const { output } = await build.generate({
    format: 'es',
    minify: true,
    entryFileNames: '[name]-[hash].js',
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: { groups: [...firstChunks] },
  });
  await build.close();
  return output.filter((each): each is OutputChunk => each.type === 'chunk');
}

/** All style sheets as one, in the order of their names. It is small, so pages have none of their own. */
async function style(): Promise<Uint8Array> {
  const folder = join(here, 'styles');
  const names = (await readdir(folder)).filter((name) => name.endsWith('.css')).sort();
  const parts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  const { code } = transform({ filename: 'style.css', code: Buffer.from(parts.join('\n')), minify: true });
  return code;
}

/** The licences of the packages in the bundle, because their texts must be with every copy. */
async function licenses(chunks: readonly OutputChunk[]): Promise<string> {
  const packages = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
  const folders = new Set(
    chunks.flatMap(({ moduleIds }) => moduleIds.flatMap((id) => packages.exec(id)?.[0] ?? [])),
  );
  const texts = [...folders].sort().map(async (folder) => {
    const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    const [file] = (await readdir(folder)).filter((each) => /^licen[cs]e/i.test(each));
    if (file === undefined) throw new Error(`${name} has no file with its licence`);
    return `${name} ${version} (${license})\n\n${(await readFile(join(folder, file), 'utf8')).trim()}\n`;
  });
  return (await Promise.all(texts)).join(`\n${'-'.repeat(72)}\n\n`);
}

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 10);
const integrityOf = (bytes: Uint8Array): string =>
  `sha384-${createHash('sha384').update(bytes).digest('base64')}`;

/** The chunks that a chunk imports before it runs, itself not among them. */
function importsOf(
  chunk: OutputChunk,
  all: readonly OutputChunk[],
  found = new Set<string>(),
): ReadonlySet<string> {
  for (const name of chunk.imports) {
    if (found.has(name)) continue;
    found.add(name);
    const next = all.find(({ fileName }) => fileName === name);
    if (next !== undefined) importsOf(next, all, found);
  }
  return found;
}

export interface Built {
  /** Sizes after gzip, by name. */
  readonly sizes: Readonly<Record<string, number>>;
  /** What the browser loads before the first page. */
  readonly first: readonly string[];
}

/** Builds beside the folder, and replaces it at once: a gateway that starts meanwhile finds the old build or the new one. */
export async function buildConsole(folder = consoleFolder): Promise<Built> {
  const chunks = await bundle();
  const entry = chunks.find(({ isEntry }) => isEntry);
  if (entry === undefined) throw new Error('the build has no entry');
  const css = await style();
  const icon = await readFile(join(here, 'icon.svg'));
  const files = new Map<string, Uint8Array>(
    chunks.map(({ fileName, code }) => [fileName, Buffer.from(code)]),
  );
  const styleName = `style-${hashOf(css)}.css`;
  const iconName = `icon-${hashOf(icon)}.svg`;
  files.set(styleName, css).set(iconName, icon);
  const before = [...importsOf(entry, chunks)];
  const bytesOf = (name: string): Uint8Array => files.get(name) ?? new Uint8Array();
  const preload = before
    .map(
      (name) =>
        `<link rel="modulepreload" nonce="{nonce}" href="{base}/console/assets/${name}" integrity="${integrityOf(bytesOf(name))}">`,
    )
    .join('\n');
  const parts = {
    icon: iconName,
    style: styleName,
    styleHash: integrityOf(css),
    script: entry.fileName,
    scriptHash: integrityOf(bytesOf(entry.fileName)),
    preload,
  };
  const template = await readFile(join(here, 'index.html'), 'utf8');
  const page = Object.entries(parts).reduce(
    (text, [name, value]) => text.replaceAll(`{${name}}`, value),
    template,
  );
  await mkdir(dirname(folder), { recursive: true });
  const fresh = await mkdtemp(`${folder}-`);
  await mkdir(join(fresh, 'assets'));
  const sizes: Record<string, number> = {};
  for (const [name, bytes] of files) {
    const zipped = gzipSync(bytes, { level: 9 });
    sizes[name] = zipped.length;
    await writeFile(join(fresh, 'assets', name), bytes);
    await writeFile(join(fresh, 'assets', `${name}.gz`), zipped);
  }
  const imports = Object.fromEntries(chunks.map((chunk) => [chunk.fileName, chunk.imports]));
  const later = Object.fromEntries(chunks.map((chunk) => [chunk.fileName, chunk.dynamicImports]));
  const first = [entry.fileName, ...before, styleName];
  await writeFile(join(fresh, 'page.html'), page);
  await writeFile(join(fresh, 'licenses.txt'), await licenses(chunks));
  await writeFile(
    join(fresh, 'manifest.json'),
    `${JSON.stringify({ first, sizes, imports, later }, null, 2)}\n`,
  );
  await rm(folder, { recursive: true, force: true });
  await rename(fresh, folder);
  return { sizes, first };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { sizes, first } = await buildConsole();
  const sum = (names: readonly string[]): number => names.reduce((all, name) => all + (sizes[name] ?? 0), 0);
  const kB = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`;
  for (const [name, bytes] of Object.entries(sizes))
    console.log(`${name.padEnd(40)} ${kB(bytes).padStart(9)}`);
  console.log(`gzip: ${kB(sum(Object.keys(sizes)))} in all, ${kB(sum(first))} before the first page`);
}

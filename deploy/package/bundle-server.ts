/**
 * Joins the modules of the `sluice` command of a checkout into a few files, `.cache/server`: a process that serves loads them in a third of
 * the time and of the memory that 800 modules take. `src/runtime/cli.ts` runs them where they are of the same sources. Run by `npm ci`. The
 * package has the modules alone, because an installation with both has more than 40 MB.
 */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import { inAscii } from './in-ascii.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Not in `dist`, which a build of the package removes while gateways run. */
const target = join(root, '.cache/server');

/** Packages that have native code, that most gateways never load, or of which a native package loads the same copy. */
const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const external = ['lmdb', 'msgpackr', '@node-rs/crc32', 'undici', ...Object.keys(peerDependencies)];

/**
 * What each start needs is in two files: the first is all that the primary of several processes loads. The other
 * commands and the backends that settings name are files of their own.
 */
const groups = [
  { name: 'command', priority: 2, test: /src\/runtime\/cli\/(cli-commands|cli-serve)\.ts$/ },
  {
    name: 'serving',
    priority: 1,
    test: new RegExp(
      `src/(${[
        'runtime/processes/serving-process',
        'runtime/(installation|secret-file)',
        'backends/metadata/embedded/store',
        'backends/data/file/file-chunks',
        'backends/(disk-space|crypto/node)',
      ].join('|')})\\.ts$`,
    ),
  },
];

let sources: readonly string[] = [];
const noted: Plugin = {
  name: 'noted',
  buildEnd() {
    sources = [...this.getModuleIds()].filter((id) => existsSync(id)).toSorted();
  },
};

rmSync(target, { recursive: true, force: true });
const bundle = await rolldown({
  input: join(root, 'src/runtime/cli/cli-commands.ts'),
  cwd: root,
  platform: 'node',
  external: external.map((name) => new RegExp(`^${name}(/|$)`)),
  // Two dynamic imports are of modules that this bundle has anyway.
  checks: { ineffectiveDynamicImport: false },
  plugins: [noted, inAscii],
});
await bundle.write({
  dir: target,
  format: 'esm',
  entryFileNames: 'cli.js',
  chunkFileNames: '[name].js',
  codeSplitting: { groups },
  comments: false,
  // The names stay, for stack traces. Compressed code took 6 and 9 % more CPU for a LIST.
  minify: { compress: false, mangle: false, codegen: true },
});
await bundle.close();

// What the bundle was made of: each file with its size and the time of its last change. Written last, so that half a
// bundle is not taken for one.
const stamps = sources.map((path) => {
  const { size, mtimeMs } = statSync(path);
  return [relative(root, path), size, mtimeMs];
});
writeFileSync(join(target, 'sources.json'), JSON.stringify(stamps));

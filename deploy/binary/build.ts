/**
 * Builds one binary of the gateway with Bun, for the kind of machine that it is built on: `bun deploy/binary/build.ts
 * [FILE]`. It has the native parts of lmdb and of the checksums, and the console; koffi, which the pools of Ceph and
 * PKCS #11 need, stays outside.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The part of Bun's API that this script uses; https://bun.sh/docs/bundler/executables. */
interface Bun {
  build(options: object): Promise<{ readonly success: boolean; readonly logs: readonly unknown[] }>;
}
interface PluginBuilder {
  onResolve(
    filter: { readonly filter: RegExp },
    resolve: (args: {
      readonly path: string;
      readonly importer: string;
    }) => { path: string; namespace: string } | undefined,
  ): void;
  onLoad(
    filter: { readonly filter: RegExp; readonly namespace?: string },
    load: (args: { readonly path: string }) => { contents: string; loader: 'js' },
  ): void;
}

const { platform, arch } = process;
const isMusl =
  platform === 'linux' &&
  !('glibcVersionRuntime' in (process.report.getReport() as { header: object }).header);
const libc = platform === 'linux' ? (isMusl ? '.musl' : '.glibc') : '';

/** These packages look for their native part on the disk, by the name of the machine; a binary needs it by a name that Bun sees. */
const natives: Readonly<Record<string, string>> = {
  lmdb: `@lmdb/lmdb-${platform}-${arch}/node.napi${libc}.node`,
  'msgpackr-extract': `@msgpackr-extract/msgpackr-extract-${platform}-${arch}/node.napi${libc}.node`,
};
const loader = 'node-gyp-build-optional-packages';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly version: string;
};

const nativeParts = {
  name: 'native-parts',
  setup(build: PluginBuilder): void {
    // The path is not the one of the file: a module that requires its own path and namespace gets itself, unfinished.
    build.onResolve({ filter: new RegExp(`^${loader}$`) }, ({ importer }) => {
      const owner = Object.keys(natives).find((name) => importer.includes(`/node_modules/${name}/`));
      return owner === undefined ? undefined : { path: `${owner}-part`, namespace: 'native' };
    });
    build.onLoad({ filter: /./, namespace: 'native' }, ({ path }) => ({
      contents: `const part = require(${JSON.stringify(join(root, 'node_modules', natives[path.replace(/-part$/, '')] ?? ''))}); module.exports = () => part;`,
      loader: 'js',
    }));
  },
};

/** The built console as a part of the binary, in place of files beside the code. */
function embedConsole(): string {
  const folder = join(root, 'dist/console');
  const names = ['page.html', ...readdirSync(join(folder, 'assets')).map((name) => `assets/${name}`)];
  const imports = names.map(
    (name, n) => `import file${n} from ${JSON.stringify(join(folder, name))} with { type: 'file' };`,
  );
  return `
    import { readFile } from 'node:fs/promises';
    ${imports.join('\n')}
    const files = { ${names.map((name, n) => `${JSON.stringify(name)}: file${n}`).join(', ')} };
    const read = async (name) => Object.hasOwn(files, name) ? new Uint8Array(await readFile(files[name])) : undefined;
    export const consoleFiles = () => ({
      async page() {
        const bytes = await read('page.html');
        return bytes && new TextDecoder().decode(bytes);
      },
      async read(name, { gzip }) {
        const bytes = await read('assets/' + name + (gzip ? '.gz' : ''));
        return bytes && { bytes, ...(gzip ? { encoding: 'gzip' } : {}) };
      },
    });`;
}

/** What the package reads from files beside its code. */
const filesOfPackage = {
  name: 'files-of-the-package',
  setup(build: PluginBuilder): void {
    build.onLoad({ filter: /runtime\/cli\/version\.ts$/ }, () => ({
      contents: `export const packageVersion = () => ${JSON.stringify(version)};`,
      loader: 'js',
    }));
    if (existsSync(join(root, 'dist/console/page.html')))
      build.onLoad({ filter: /runtime\/console-files\.ts$/ }, () => ({
        contents: embedConsole(),
        loader: 'js',
      }));
  },
};

const [outfile = 'sluice'] = process.argv.slice(2);
const { success, logs } = await (globalThis as unknown as { readonly Bun: Bun }).Bun.build({
  entrypoints: [`${root}src/runtime/cli.ts`],
  compile: { outfile },
  minify: true,
  external: ['koffi'],
  plugins: [nativeParts, filesOfPackage],
});
for (const log of logs) console.error(String(log));
process.exitCode = success ? 0 : 1;

/**
 * Joins the modules of `sluice/testing` into a few files, after `tsc` has written them: a test process loads one file in a quarter of the time and in
 * three quarters of the memory of 800. Run by `npm run build`.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));

/**
 * The operator API stays out: the test server hands each request to the storage protocol (`listener: 'storage'`), so none reaches these
 * functions. A name that is missing here fails the build.
 */
const withoutOperators: Readonly<Record<string, string>> = {
  'handlers/areas.js': `
    export const matchArea = () => undefined;
    export const openAreas = () => async () => { throw new Error('a server for tests has no areas'); };`,
  'protocol/operations/admin.js': `
    export const describeAdminOperation = () => { throw new Error('a server for tests has no operator API'); };`,
  'protocol/request/admin-target.js': `
    export const matchAdmin = () => undefined;
    export const readAdminTarget = () => { throw new Error('a server for tests has no operator API'); };`,
};

const replaced: Plugin = {
  name: 'without-operators',
  load(id) {
    const code = id.startsWith(dist) ? withoutOperators[id.slice(dist.length)] : undefined;
    return code === undefined ? null : { code, moduleType: 'js' };
  },
};

const bundle = await rolldown({
  input: join(dist, 'runtime/testing/test-server.js'),
  platform: 'node',
  // Packages stay dependencies of this one.
  external: /^(?![./])/,
  plugins: [replaced],
});
await bundle.write({
  dir: join(dist, 'testing'),
  format: 'esm',
  chunkFileNames: '[name].js',
  comments: false,
});
await bundle.close();

/**
 * Joins the modules of `sluice/testing` into a few files, after `tsc` has written them: a test process loads one file
 * in a quarter of the time and in three quarters of the memory of 800. Run by `npm run build`.
 */
import { METHODS, STATUS_CODES } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import { inAscii } from './in-ascii.ts';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));

/**
 * What a test process does without, because each costs it megabytes: the hashes in JavaScript, which are for runtimes
 * without node:crypto, and the native CRC32C, whose library is larger than all the rest.
 */
const lighter: Readonly<Record<string, string>> = {
  'backends/crypto/portable.js': `
    export { nodeCipher as portableCipher, nodeHasher as portableHasher } from './node.js';`,
  // The gateway has a listener of its own, and needs two tables of this module.
  'runtime/node/http.js': `export const http = ${JSON.stringify({ METHODS, STATUS_CODES })};`,
};
/** A test server has no TLS, whose module takes 4 MB. */
const withoutTls = `
  export class TLSSocket {}
  export class Server {}
  const absent = () => { throw new Error('a server for tests has no TLS'); };
  export { absent as createSecureContext, absent as createServer };`;
const crc = join(dist, 'backends/crypto/crc.js');

/**
 * The operator API stays out: the test server hands each request to the storage protocol (`listener: 'storage'`), so none reaches these
 * functions. A name that is missing here fails the build.
 */
const withoutOperators: Readonly<Record<string, string>> = {
  'handlers/areas.js': `
    export const adminApi = undefined;
    const serve = async () => { throw new Error('a server for tests has no areas'); };
    export const openAreas = () => ({ serve, loadAdmin: async () => undefined });`,
};

const replacements = { ...withoutOperators, ...lighter };
const replaced: Plugin = {
  name: 'replaced',
  resolveId: (name) =>
    name === '@node-rs/crc32' || name === 'node:tls' ? { id: name, external: false } : null,
  load(id) {
    if (id === '@node-rs/crc32')
      return {
        code: `import { crc32c } from ${JSON.stringify(crc)}; export default { crc32c };`,
        moduleType: 'js',
      };
    if (id === 'node:tls') return { code: withoutTls, moduleType: 'js' };
    const code = id.startsWith(dist) ? replacements[id.slice(dist.length)] : undefined;
    return code === undefined ? null : { code, moduleType: 'js' };
  },
};

const bundle = await rolldown({
  input: join(dist, 'runtime/testing/test-server.js'),
  platform: 'node',
  // Packages stay dependencies of this one.
  external: /^(?![./]|@node-rs\/crc32|node:tls)/,
  plugins: [replaced, inAscii],
});
await bundle.write({
  dir: join(dist, 'testing'),
  format: 'esm',
  chunkFileNames: '[name].js',
  comments: false,
  // The names stay, for stack traces.
  minify: { compress: true, mangle: false, codegen: true },
});
await bundle.close();

/**
 * The core needs what WHATWG fetch and SubtleCrypto give, and nothing of Node: `tsc` holds its types, a runtime without
 * Buffer what it does.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
/** A module of the repository, as text of a script that imports it. */
const load = (file: string): string => JSON.stringify(join(root, file));

function runScript(script: string): unknown {
  const output = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
  });
  return JSON.parse(output);
}

test('tsconfig.json compiles the core without types of Node, so that a use of them fails', () => {
  const compiler = join(root, 'node_modules/.bin/tsc');
  const files = execFileSync(compiler, ['-p', 'tsconfig.json', '--listFiles'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect(files).toContain('src/gateway.ts');
  expect(files.split('\n').filter((path) => path.includes('@types/node'))).toEqual([]);
});

test('objects are written, read in ranges and listed by a core that found no Buffer, and has numbers for timers', () => {
  const script = `
    const { Buffer } = globalThis;
    delete globalThis.Buffer;
    const { openGateway, memory } = await import(${load('src/mod.ts')});
    // The fetch of Node needs it; the core has looked for it when it was loaded.
    globalThis.Buffer = Buffer;
    const start = globalThis.setTimeout;
    globalThis.setTimeout = (...args) => (start(...args), 1);
    const credentials = [{ accessKey: 'KEY', secretKey: 'a-long-secret', owner: 'me', root: true }];
    const storage = await openGateway({ credentials, storage: memory() });
    const send = async (method, bucket, key, body, headers = {}) => {
      const url = await storage.presign({ method, origin: 'http://localhost', bucket, key, expiresSeconds: 60 });
      const length = body === undefined ? {} : { 'content-length': String(body.length) };
      return storage.fetch(new Request(url, { method, body, headers: { ...headers, ...length } }));
    };
    const bytes = Uint8Array.from({ length: 9 * 1024 * 1024 }, (_, n) => n % 251);
    const put = [await send('PUT', 'photos', ''), await send('PUT', 'photos', 'a', bytes), await send('PUT', 'photos', 'b', 'x')];
    const part = await send('GET', 'photos', 'a', undefined, { range: 'bytes=4194300-4194310' });
    const read = new Uint8Array(await (await send('GET', 'photos', 'a')).arrayBuffer());
    console.log(JSON.stringify({
      statuses: put.map(({ status }) => status),
      part: [...new Uint8Array(await part.arrayBuffer())],
      isSame: read.length === bytes.length && read.every((byte, n) => byte === bytes[n]),
      keys: (await (await send('GET', 'photos', '')).text()).match(/<Key>[^<]*/g),
    }));
    await storage.close();
    process.exit();`;
  expect(runScript(script)).toEqual({
    statuses: [200, 200, 200],
    part: Array.from({ length: 11 }, (_, n) => (4_194_300 + n) % 251),
    isSame: true,
    keys: ['<Key>a', '<Key>b'],
  });
});

test('the record layer and the spare buffers work while there is no Buffer, and timers are numbers', () => {
  const directory = mkdtempSync(join(tmpdir(), 'bare-'));
  const script = `
    const { openNodeSqlite } = await import(${load('src/backends/metadata/records/node-sqlite.ts')});
    delete globalThis.Buffer;
    const start = globalThis.setTimeout;
    globalThis.setTimeout = (...args) => (start(...args), 1);
    const { Buffers } = await import(${load('src/base/loaned-buffers.ts')});
    const { sqliteStore } = await import(${load('src/backends/metadata/records/sqlite.ts')});
    const { systemClock } = await import(${load('src/ports/clock.ts')});
    const { systemRandom } = await import(${load('src/ports/random.ts')});
    const { head, headsOf, talliesOf } = await import(${load('test/contract/metadata-store/tables.ts')});
    const sql = openNodeSqlite({ path: ${JSON.stringify(join(directory, 'rows'))}, durable: false });
    const store = sqliteStore(sql, { clock: systemClock, random: systemRandom() });
    const changes = ['ä', 'b'].map((key) => ({ put: head('b', key), expect: 'absent' }));
    const then = [{ at: talliesOf('b'), add: { className: 'c' }, by: { objects: 2 } }];
    const { applied } = await store.commit(headsOf('b'), changes, { then });
    const rows = await store.scan(headsOf('b'), { columns: ['size'] }).next(10);
    const buffers = new Buffers(65536, 65536);
    const buffer = buffers.borrow();
    buffers.giveBack(buffer);
    console.log(JSON.stringify({
      applied,
      keys: rows.map(({ row }) => row.key),
      objects: (await store.get(talliesOf('b'), { className: 'c' })).row.objects,
      isLentAgain: buffers.borrow() === buffer,
    }));
    process.exit();`;
  try {
    expect(runScript(script)).toEqual({ applied: true, keys: ['b', 'ä'], objects: 2, isLentAgain: true });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test('in workerd, whose timers end with their requests, no spare buffer is kept', () => {
  const script = `
    Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'Cloudflare-Workers' } });
    const { Buffers } = await import(${load('src/base/loaned-buffers.ts')});
    const buffers = new Buffers(65536, 65536);
    const buffer = buffers.borrow();
    buffers.giveBack(buffer);
    console.log(JSON.stringify({ keptBytes: buffer.length, isLentAgain: buffers.borrow() === buffer }));`;
  expect(runScript(script)).toEqual({ keptBytes: 0, isLentAgain: false });
});

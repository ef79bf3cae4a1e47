/** The chunk store over R2 against the contract of chunk stores, on the R2 of miniflare. */
import { Miniflare } from 'miniflare';
import { afterAll, expect, test } from 'vitest';
import { type R2Bucket, r2Chunks } from '../../src/backends/data/r2.ts';
import { DataUnavailable } from '../../src/ports/object-bytes.ts';
import {
  chunkStoreContract,
  contentOf,
  inPieces,
  listAll,
  owner,
  put,
  readWhole,
  whole,
} from './chunk-store.ts';

const worker = new Miniflare({
  modules: true,
  script: 'export default { fetch: () => new Response() }',
  compatibilityDate: '2026-04-01',
  r2Buckets: ['BUCKET'],
});
afterAll(() => worker.dispose());
const bucket = async (): Promise<R2Bucket> => (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket;

let stores = 0;
chunkStoreContract(
  'R2',
  async () => {
    const prefix = `chunks-${++stores}/`;
    const opened = await bucket();
    const open = () => r2Chunks(opened, { prefix });
    return { store: open(), reopen: open, dispose: async () => {} };
  },
  { unknownUsage: 'R2 reports no usage to a binding' },
);

test('a store that cannot reach R2 says so in every call, and names no key', async () => {
  const broken = async (): Promise<never> => {
    throw new Error('internal error');
  };
  const store = r2Chunks({ put: broken, get: broken, head: broken, delete: broken, list: broken });
  const calls = [
    () => put(store, 'a.0', 10),
    () => readWhole(store.read({ id: 'a.0', size: 10 }, { start: 0, end: 9 })),
    () => store.remove([{ id: 'a.0', size: 10 }]),
    () => store.named?.(['a.0']),
    () => listAll(store),
    () => store.health(),
  ];
  for (const call of calls) {
    const cause = await Promise.resolve(call()).catch((error: unknown) => error);
    expect(cause).toBeInstanceOf(DataUnavailable);
    expect(String(cause)).not.toContain('a.0');
  }
});

test.each([
  ['at the same place', { cursor: 'a' }],
  ['at no place', {}],
])('a listing of R2 that goes on %s ends with an error', async (_, more) => {
  const real = await bucket();
  const list = async () => ({ objects: [], truncated: true, ...more });
  const store = r2Chunks({
    put: (...call) => real.put(...call),
    get: (...call) => real.get(...call),
    head: (key) => real.head(key),
    delete: (keys) => real.delete(keys),
    list,
  });
  await expect(listAll(store)).rejects.toThrow(DataUnavailable);
});

test('a body that R2 ends early is an error, and no short read', async () => {
  const real = await bucket();
  const store = r2Chunks({
    ...{ put: real.put.bind(real), head: real.head.bind(real) },
    ...{ delete: real.delete.bind(real), list: real.list.bind(real) },
    get: async () => ({ body: new Blob([contentOf('cut.0', 400) as Uint8Array<ArrayBuffer>]).stream() }),
  });
  const chunk = await store.write('cut.0', inPieces(contentOf('cut.0', 1_000), 100), { owner, size: 1_000 });
  await expect(readWhole(store.read(chunk, whole(chunk)))).rejects.toThrow(DataUnavailable);
});

test('a chunk has the owner that it was written with, of a key of 1,024 bytes too, and so does one of an earlier release', async () => {
  const real = await bucket();
  const store = r2Chunks(real, { prefix: 'owned/' });
  const keys = ['\u0001'.repeat(1_024), 'é'.repeat(512), '\u{1f600}'.repeat(256), '\ufeffx'];
  const owners = keys.map((key) => ({ ...owner, key }));
  for (const [place, each] of owners.entries())
    await store.write(`${place}.0`, inPieces(contentOf('x', 10), 10), { owner: each, size: 10 });
  const earlier = { ...owner, key: 'é' };
  const customMetadata = { owner: encodeURIComponent(JSON.stringify(earlier)) };
  await real.put('owned/9.0', new Uint8Array(10), { customMetadata });
  expect((await listAll(store)).map((chunk) => chunk.owner)).toEqual([...owners, earlier]);
});

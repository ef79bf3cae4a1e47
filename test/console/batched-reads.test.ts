import { afterEach, expect, test, vi } from 'vitest';

interface Sent {
  readonly reads: readonly { readonly path: { readonly name: string }; readonly etag?: string }[];
}

/** The compiler of the tests does not know the DOM. */
const load = async (file: string) => import(file);

/** Answers as BatchRead: 304 to a read with an ETag, else a reply. */
const answer = vi.fn(async (_: string, { body }: { readonly body: string }) => {
  const { reads } = JSON.parse(body) as Sent;
  const lines = reads.map(({ path: { name }, etag }, index) =>
    JSON.stringify(
      etag === undefined
        ? { index, status: 200, etag: `"${name}"`, reply: { name } }
        : { index, status: 304, etag },
    ),
  );
  return new Response(lines.map((line) => `${line}\n`).join(''));
});

afterEach(() => vi.unstubAllGlobals());

test('a 304 in a batch stands for the reply whose ETag the request sent, also where other parts of the batch fill the cache', async () => {
  vi.stubGlobal('fetch', answer);
  const { setCsrfToken } = await load('../../console/app/client.ts');
  const { read } = await load('../../console/app/reads.ts');
  setCsrfToken('token');
  const readBuckets = (names: readonly string[]): Promise<unknown> =>
    Promise.all(names.map((name) => read('GetBucket', { path: { name } })));
  await readBuckets(['old', 'other']);
  const names = [...Array.from({ length: 31 }, (_, index) => `new-${index}`), 'old'];
  expect(await readBuckets(names)).toEqual(names.map((name) => ({ name })));
  const { body } = answer.mock.calls.at(-1)?.[1] ?? { body: '{"reads":[]}' };
  expect((JSON.parse(body) as Sent).reads.at(-1)?.etag).toBe('"old"');
});

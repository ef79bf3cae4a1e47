/** The steps of the histories of `parity.ts`: every kind of request that reads or changes keys, versions and uploads. */
import fc from 'fast-check';
import { completion, deletion, md5, versioning } from './gateway-bodies.ts';
import type { Ask } from './gateway-client.ts';
import {
  afterMarker,
  afterPart,
  afterToken,
  afterUpload,
  afterVersion,
  keys,
  type NextPage,
  type Pair,
  type Side,
} from './parity.ts';

const bodies = ['', 'one', 'two', 'three and more'];
const prefixes = ['a', 'a/', 'a/b', 'b/', '\uFFFD', 'zz'];

type Model = Record<string, never>;
export type Step = fc.AsyncCommand<Model, Pair>;

const step = (name: string, run: (pair: Pair) => Promise<unknown>): Step => ({
  check: () => true,
  run: async (_, pair) => void (await run(pair)),
  toString: () => name,
});

type Drawn<Given> = { readonly [Name in keyof Given]: fc.Arbitrary<Given[Name]> };
interface Made {
  readonly path: string;
  readonly ask?: Ask;
}

/** One request to each gateway. */
function request<Given extends object>(
  title: string,
  drawn: Drawn<Given>,
  make: (side: Side, given: Given) => Made,
): fc.Arbitrary<Step> {
  const [method = ''] = title.split(' ');
  return fc.record(drawn).map((given) => {
    const name = `${title} ${JSON.stringify(given)}`;
    return step(name, (pair) =>
      pair.ask(name, (side) => {
        const { path, ask } = make(side, given as Given);
        return side.world.client.send(method, path, ask);
      }),
    );
  });
}

/** A listing, page after page. */
function listing(
  fixed: Readonly<Record<string, string>>,
  drawn: Drawn<Record<string, string>>,
  next: NextPage,
) {
  return fc.record(drawn, { requiredKeys: [] }).map((given) => {
    const query = { ...fixed, ...(given as Readonly<Record<string, string>>) };
    const name = `list ${JSON.stringify(query)}`;
    return step(name, (pair) => pair.pages(name, query, next));
  });
}

const key = fc.constantFrom(...keys);
const body = fc.constantFrom(...bodies);
const nth = fc.nat(9);
const partNumber = fc.integer({ min: 1, max: 3 });
const etag = body.map((content) => `"${md5(content)}"`);
const condition: fc.Arbitrary<Readonly<Record<string, string>>> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.constant({ 'if-none-match': '*' }) },
  { weight: 1, arbitrary: fc.constant({ 'if-match': '*' }) },
  { weight: 2, arbitrary: etag.map((value) => ({ 'if-match': value })) },
);
const tags = fc.constantFrom('', 'a=1', 'a=1&b=2');

const prefix = fc.constantFrom(...prefixes);
const delimiter = fc.constantFrom('/', 'b');
const few = fc.integer({ min: 1, max: 5 }).map(String);

const uploadQuery = (side: Side, upload: number) => ({ uploadId: side.upload(upload) });

const writes: readonly fc.Arbitrary<Step>[] = [
  request('PUT object', { key, body, condition, tags }, (side, { tags: tagging, ...given }) => ({
    path: side.path(given.key),
    ask: {
      body: given.body,
      headers: { ...given.condition, ...(tagging === '' ? {} : { '*-tagging': tagging }) },
    },
  })),
  request('PUT copy', { from: key, to: key, version: fc.option(nth) }, (side, { from, to, version }) => ({
    path: side.path(to),
    ask: {
      headers: {
        '*-copy-source': `${side.path(from)}${version === null ? '' : `?versionId=${side.version(version)}`}`,
        '*-metadata-directive': 'REPLACE',
      },
    },
  })),
  request('DELETE object', { key, condition }, (side, given) => ({
    path: side.path(given.key),
    ask: { headers: given.condition },
  })),
  request('DELETE version', { key, version: nth }, (side, given) => ({
    path: side.path(given.key),
    ask: { query: { versionId: side.version(given.version) } },
  })),
  request('POST delete', { some: fc.uniqueArray(key, { minLength: 1, maxLength: 4 }) }, (side, { some }) => ({
    path: `${side.path()}?delete`,
    ask: { body: deletion(some) },
  })),
  request('PUT tagging', { key, version: nth, value: fc.constantFrom('x', 'y') }, (side, given) => ({
    path: side.path(given.key),
    ask: {
      query: { tagging: '', ...(given.version < 5 ? {} : { versionId: side.version(given.version) }) },
      body: `<Tagging><TagSet><Tag><Key>t</Key><Value>${given.value}</Value></Tag></TagSet></Tagging>`,
    },
  })),
  request(
    'PUT versioning',
    { status: fc.constantFrom('Enabled' as const, 'Suspended' as const) },
    (side, given) => ({
      path: `${side.path()}?versioning`,
      ask: { body: versioning(given.status) },
    }),
  ),
];

const uploads: readonly fc.Arbitrary<Step>[] = [
  request('POST upload', { key }, (side, given) => ({ path: `${side.path(given.key)}?uploads` })),
  request('PUT part', { key, upload: nth, number: partNumber, body }, (side, given) => ({
    path: side.path(given.key),
    ask: {
      query: { ...uploadQuery(side, given.upload), partNumber: String(given.number) },
      body: given.body,
    },
  })),
  request('POST complete', { key, upload: nth, number: partNumber, etag, condition }, (side, given) => ({
    path: side.path(given.key),
    ask: {
      query: uploadQuery(side, given.upload),
      body: completion([{ number: given.number, etag: given.etag }]),
      headers: given.condition,
    },
  })),
  request('DELETE upload', { key, upload: nth }, (side, given) => ({
    path: side.path(given.key),
    ask: { query: uploadQuery(side, given.upload) },
  })),
];

/** A whole upload, because random steps rarely combine a matching key, part and ETag. */
const wholeUpload: fc.Arbitrary<Step> = fc
  .record({ key, body, number: partNumber, condition })
  .map((given) => {
    const name = `upload ${JSON.stringify(given)}`;
    return step(name, async (pair) => {
      await pair.ask(`${name}: create`, (side) => side.world.client.post(`${side.path(given.key)}?uploads`));
      const last = (side: Side) => ({ uploadId: side.uploads.at(-1) ?? '' });
      await pair.ask(`${name}: part`, (side) =>
        side.world.client.put(side.path(given.key), {
          query: { ...last(side), partNumber: String(given.number) },
          body: given.body,
        }),
      );
      await pair.ask(`${name}: complete`, (side) =>
        side.world.client.post(side.path(given.key), {
          query: last(side),
          body: completion([{ number: given.number, etag: `"${md5(given.body)}"` }]),
          headers: given.condition,
        }),
      );
    });
  });

const reads: readonly fc.Arbitrary<Step>[] = [
  request('GET object', { key, version: fc.option(nth) }, (side, given) => ({
    path: side.path(given.key),
    ask: { query: given.version === null ? {} : { versionId: side.version(given.version) } },
  })),
  listing({ 'list-type': '2' }, { prefix, delimiter, 'max-keys': few, 'start-after': key }, afterToken),
  listing({}, { prefix, delimiter, 'max-keys': few, marker: key }, afterMarker),
  listing({ versions: '' }, { prefix, delimiter, 'max-keys': few, 'key-marker': key }, afterVersion),
  listing({ uploads: '' }, { prefix, delimiter, 'max-uploads': few, 'key-marker': key }, afterUpload),
  fc.record({ key, upload: nth, few }).map((given) => {
    const name = `parts ${JSON.stringify(given)}`;
    const of = (side: Side) => ({
      path: side.path(given.key),
      query: { ...uploadQuery(side, given.upload), 'max-parts': given.few },
    });
    return step(name, (pair) => pair.pages(name, of, afterPart));
  }),
];

/** Mostly writes, because reads of empty buckets show nothing. */
export const steps: fc.Arbitrary<Step>[] = [...writes, ...writes, ...uploads, wholeUpload, ...reads];

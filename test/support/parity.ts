/**
 * Random histories of requests that two gateways must answer alike. Each gateway draws its own ids of versions and uploads, so a request
 * refers to them by their order of appearance, and replies are compared with that order in place of the ids.
 */
import { expect } from 'vitest';
import type { GatewayWorld } from './gateway.ts';
import type { Answer } from './gateway-client.ts';
import { encodePath } from './sign.ts';

/** Keys that test the order: delimiters, prefixes of each other, and UTF-8 against UTF-16 order. */
export const keys = ['a', 'a/', 'a/b', 'a/b/c', 'a0', 'b', 'b/1', 'é', '\uFFFD', '\u{1F600}'];
const pagesMax = 60;

/** One of the two gateways, and the ids that it drew. */
export class Side {
  readonly world: GatewayWorld;
  readonly bucket: string;
  readonly versions: string[] = [];
  readonly uploads: string[] = [];

  constructor(world: GatewayWorld, bucket: string) {
    this.world = world;
    this.bucket = bucket;
  }

  path(key = ''): string {
    return `/${this.bucket}${key === '' ? '' : `/${encodePath(key)}`}`;
  }

  /** The n-th version id that the gateway returned, modulo their number; the null version for 0. */
  version(nth: number): string {
    return nth === 0 ? 'null' : (this.versions[nth % Math.max(this.versions.length, 1)] ?? 'null');
  }
  upload(nth: number): string {
    return this.uploads[nth % Math.max(this.uploads.length, 1)] ?? 'none';
  }

  /** The content of a reply, independent of its backend. */
  said(answer: Answer): object {
    this.#learn(answer);
    const named = (text: string): string =>
      [
        ...this.versions.map((id, at) => [id, `version ${at}`]),
        ...this.uploads.map((id, at) => [id, `upload ${at}`]),
      ]
        .reduce((given, [id = '', name = '']) => given.replaceAll(id, name), text)
        .replaceAll(volatile, '<$1/>');
    const headers = comparedHeaders.map((name) => answer.header(name)).map((value) => value && named(value));
    return { status: answer.status, headers, text: named(answer.text) };
  }

  #learn(answer: Answer): void {
    const ids = (headers: readonly string[], elements: readonly string[]): string[] =>
      [
        ...headers.map((name) => answer.header(name) ?? ''),
        ...elements.flatMap((name) => answer.all(name)),
      ].filter((id) => id !== '' && id !== 'null');
    for (const id of ids(['*-version-id'], ['VersionId', 'DeleteMarkerVersionId']))
      if (!this.versions.includes(id)) this.versions.push(id);
    for (const id of ids([], ['UploadId'])) if (!this.uploads.includes(id)) this.uploads.push(id);
  }
}

/** The compared headers and elements. Times, request ids, tokens and markers that contain ids differ between gateways. */
const comparedHeaders = [
  'etag',
  'content-length',
  '*-version-id',
  '*-delete-marker',
  '*-copy-source-version-id',
  '*-tagging-count',
];
const volatile =
  /<(LastModified|Initiated|RequestId|HostId|(?:Next)?(?:ContinuationToken|VersionIdMarker|UploadIdMarker))>[^<]*<\/\1>/g;

/** Both gateways, which get the same requests. */
export class Pair {
  readonly #sides: readonly [Side, Side];

  constructor(reference: GatewayWorld, tested: GatewayWorld, bucket: string) {
    this.#sides = [new Side(reference, bucket), new Side(tested, bucket)];
  }

  /** Sends the request with each side's own ids, and compares the answers. */
  async ask(what: string, send: (side: Side) => Promise<Answer>): Promise<readonly [Answer, Answer]> {
    const [reference, tested] = this.#sides;
    const [wanted, got] = [await send(reference), await send(tested)];
    expect(got.status, `${what}: ${got.text}`).toBeLessThan(500);
    expect(tested.said(got), what).toEqual(reference.said(wanted));
    return [wanted, got];
  }

  /** Compares all pages; each side follows its own tokens. @param of the listing's path and query */
  async pages(what: string, of: Listing | Query, next: NextPage): Promise<void> {
    const listing: Listing = typeof of === 'function' ? of : (side) => ({ path: side.path(), query: of });
    const further = new Map<Side, Query>();
    for (let page = 0; page < pagesMax; page += 1) {
      const answers = await this.ask(`${what}, page ${page}`, (side) => {
        const { path, query } = listing(side);
        return side.world.client.get(path, { query: { ...query, ...further.get(side) } });
      });
      if (!answers.every((answer) => answer.one('IsTruncated') === 'true')) return;
      this.#sides.forEach((side, at) => {
        further.set(side, next(answers[at] as Answer));
      });
    }
    throw new Error(`${what}: a listing that does not end`);
  }

  /** Everything that can be seen or counted, at the end of a history. */
  async compare(): Promise<void> {
    for (const key of keys) {
      await this.ask(`GET ${key}`, (side) => side.world.client.get(side.path(key)));
      await this.ask(`tags of ${key}`, (side) => side.world.client.get(`${side.path(key)}?tagging`));
    }
    await this.pages('all versions', { versions: '', 'max-keys': '7' }, afterVersion);
    await this.pages('all uploads', { uploads: '', 'max-uploads': '3' }, afterUpload);
    await this.pages('all objects', { 'list-type': '2', 'max-keys': '4', 'fetch-owner': 'true' }, afterToken);
    const [reference, tested] = this.#sides;
    for (const at of reference.versions.keys())
      await this.ask(`version ${at}`, (side) =>
        side.world.client.get(side.path('a'), { query: { versionId: side.versions[at] ?? '' } }),
      );
    expect(await tested.world.usage(tested.bucket)).toEqual(await reference.world.usage(reference.bucket));
    expect(await tested.world.owned(tested.bucket)).toHaveLength(
      (await reference.world.owned(reference.bucket)).length,
    );
  }
}

type Query = Readonly<Record<string, string>>;
type Listing = (side: Side) => { readonly path: string; readonly query: Query };
export type NextPage = (answer: Answer) => Query;
export const afterToken: NextPage = (answer) => ({
  'continuation-token': answer.one('NextContinuationToken') ?? '',
});
export const afterMarker: NextPage = (answer) => ({
  marker: answer.one('NextMarker') ?? answer.all('Key').at(-1) ?? '',
});
export const afterVersion: NextPage = (answer) => ({
  'key-marker': answer.one('NextKeyMarker') ?? '',
  'version-id-marker': answer.one('NextVersionIdMarker') ?? '',
});
export const afterUpload: NextPage = (answer) => ({
  'key-marker': answer.one('NextKeyMarker') ?? '',
  'upload-id-marker': answer.one('NextUploadIdMarker') ?? '',
});
export const afterPart: NextPage = (answer) => ({
  'part-number-marker': answer.one('NextPartNumberMarker') ?? '',
});

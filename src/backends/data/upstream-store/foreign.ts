/** Objects that clients put into the upstream bucket themselves, for `sluice import` (docs/adr/0015-import-of-upstream-objects.md). */
import type {
  ForeignDetails,
  ForeignObject,
  ForeignObjects,
  ForeignPage,
} from '../../../ports/object-bytes.ts';
import { amz } from '../../../protocol/dialect.ts';
import { etagIn, foreignListing, readAnswer, UpstreamError } from './answers.ts';
import { retrying } from './client.ts';
import type { Connection } from './connection.ts';
import { ownerIn } from './names.ts';

/** A GET of an object of these classes is refused until it is restored there. */
const archived: ReadonlySet<string> = new Set(['GLACIER', 'DEEP_ARCHIVE']);
/** Headers that the gateway stores and returns unchanged. */
const systemHeaders = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-type',
  'expires',
] as const;
const userPrefix = `${amz.headerPrefix}meta-`;

export const foreignObjects = (connectionTo: (cluster: string) => Connection): ForeignObjects => ({
  refusal(cluster) {
    const { prefix } = connectionTo(cluster);
    return prefix === ''
      ? `upstream ${cluster} has an empty prefix, so objects of clients cannot be told from those of the gateway`
      : undefined;
  },

  async list(cluster, { after, max, signal }) {
    const connection = connectionTo(cluster);
    const query: [string, string][] = [
      ['encoding-type', 'url'],
      ['list-type', '2'],
      ['max-keys', String(max)],
    ];
    if (after !== '') query.push(['start-after', after]);
    const page = await retrying(connection, { signal }, async () => {
      const { bytes } = await connection.client.ask({ method: 'GET', query, signal });
      return readAnswer(foreignListing, 'ListBucketResult', bytes);
    });
    const decode = page.EncodingType === 'url' ? decodeKey : (key: string) => key;
    const keys = page.Contents.map(({ Key }) => decode(Key));
    const last = keys.at(-1);
    // A service that ignores `start-after` would be listed from its beginning without end.
    if (page.IsTruncated && (last === undefined || last === after || keys[0] === after))
      throw new UpstreamError(`upstream ${cluster} does not list the keys behind ${JSON.stringify(after)}`);
    return readPage(connection, page.Contents, { keys, last: page.IsTruncated ? last : undefined });
  },

  async describe(cluster, key, signal) {
    const connection = connectionTo(cluster);
    const headers = await readHeaders(connection, key, signal);
    if (headers === undefined || ownerIn(headers) !== undefined) return undefined;
    const object: ForeignObject = {
      key,
      size: Number(headers['content-length']),
      etag: etagIn(headers),
      modified: Date.parse(headers['last-modified'] ?? ''),
    };
    return isSound(object) ? { ...object, ...described(headers) } : undefined;
  },
});

interface Listed {
  readonly Size: number;
  readonly ETag?: string | undefined;
  readonly LastModified?: string | undefined;
  readonly StorageClass?: string | undefined;
}

function readPage(
  { prefix }: Connection,
  contents: readonly Listed[],
  { keys, last }: { readonly keys: readonly string[]; readonly last: string | undefined },
): ForeignPage {
  const objects = contents.flatMap(({ Size, ETag = '', LastModified = '', StorageClass = '' }, i) => {
    const key = keys[i] ?? '';
    const object = { key, size: Size, etag: ETag.replaceAll('"', ''), modified: Date.parse(LastModified) };
    // Extents, the mark of the installation and the probe are below the prefix.
    const isOurs = key.startsWith(prefix);
    return isOurs || archived.has(StorageClass) || !isSound(object) ? [] : [object];
  });
  return { objects, skipped: contents.length - objects.length, last };
}

const isSound = ({ size, etag, modified }: ForeignObject): boolean =>
  Number.isSafeInteger(size) && etag !== '' && Number.isFinite(modified);

/** Undefined for an object that does not exist, or that the upstream describes only to requests with its key (SSE-C). */
const readHeaders = (
  connection: Connection,
  key: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>> | undefined> =>
  retrying(connection, { signal }, async () => {
    try {
      return (await connection.client.ask({ method: 'HEAD', key, signal })).headers;
    } catch (cause) {
      if (cause instanceof UpstreamError && (cause.status === 404 || cause.status === 400)) return undefined;
      throw cause;
    }
  });

function described(headers: Readonly<Record<string, string>>): Pick<ForeignDetails, 'system' | 'user'> {
  const system = systemHeaders.flatMap((name) => {
    const value = headers[name];
    return value === undefined || value === '' ? [] : [[name, asBytes(value)] as const];
  });
  const user = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith(userPrefix) ? [[name.slice(userPrefix.length), asBytes(value)] as const] : [],
  );
  return { system: Object.fromEntries(system), user: Object.fromEntries(user) };
}

/** Rows keep the value of a header as its bytes, a character each; the HTTP client decodes it from UTF-8. */
const asBytes = (value: string): string => String.fromCharCode(...new TextEncoder().encode(value));

/** Some services write a space as `+`; all write a plus sign as `%2B`. */
const decodeKey = (encoded: string): string => {
  try {
    return decodeURIComponent(encoded.replaceAll('+', '%20'));
  } catch (cause) {
    throw new UpstreamError(`the upstream listed a key that is no UTF-8: ${encoded}`, { cause });
  }
};

/** The `upstream-store` backend: extents as objects of other S3 services, a bucket of one each cluster. */

import { fail } from '../../../base/errors.ts';
import type { SharedBudget } from '../../../base/shared-budget.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Hasher } from '../../../ports/cryptography.ts';
import {
  type ByteRange,
  ChunkDamaged,
  ChunkMissing,
  type ClusterHealth,
  DataUnavailable,
  type Extent,
  type ForwardedUpload,
  type FoundExtent,
  type ObjectBytes,
  type Owner,
  type UnmanagedDetails,
  type UnmanagedObject,
  type UnmanagedObjects,
  type UnmanagedPage,
  type UploadBytes,
  UploadGone,
  unknownSize,
  unreachable,
} from '../../../ports/object-bytes.ts';
import type { Random } from '../../../ports/random.ts';
import { isArchive } from '../../../ports/storage-classes.ts';
import type { CallUse } from '../../../ports/trace.ts';
import { amz } from '../../../protocol/dialect.ts';
import { systemHeaders } from '../../../protocol/wire.ts';
import { LoanedArrays } from '../chunked/write-chunks.ts';
import type { WriteBudget } from '../write-budget.ts';
import {
  etagIn,
  isGone,
  listing,
  readAnswer,
  UpstreamError,
  unmanagedListing,
  uploadListing,
} from './answers.ts';
import { Attempts, openUpstreamClient, retrying, type Upstream, type UpstreamReply } from './client.ts';
import { HashVerification } from './hash-verification.ts';
import { type Connection, markIn, ownerHeaders, ownerIn, parseKey, toKey } from './names.ts';
import {
  abortUpload,
  assemble,
  beginUpload,
  headObject,
  put,
  readHead,
  removeObject,
  singleMax,
  smallMax,
  type UpstreamUpload,
  writeExtent,
} from './write.ts';

interface UpstreamStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly hasher: Hasher;
  /** Bounds what all uploads hold in memory together; without it only each one is bounded. */
  readonly budget?: WriteBudget | undefined;
  /** For bodies of unknown length. */
  readonly partMemory: Pick<SharedBudget, 'take' | 'give'>;
}

export function upstreamStore(upstreams: readonly Upstream[], options: UpstreamStoreOptions): ObjectBytes {
  const connections = new Map(upstreams.map((each) => [each.id, connect(each, options)]));
  const clusters = [...connections.keys()];

  function connectionTo(cluster: string, use?: CallUse): Connection {
    const connection = connections.get(cluster);
    if (connection === undefined)
      throw new DataUnavailable(`cluster ${cluster} is not configured; there are: ${clusters.join(', ')}`);
    if (use === undefined) return connection;
    return { ...connection, account: use.account, client: connection.client.usedFor(use) };
  }

  return {
    clusters,
    // An extent is one object.
    pieceBytes: Number.POSITIVE_INFINITY,
    uploads: forwardedUploads(connectionTo),
    marks: [...connections.values()].map(markIn),
    foreign: unmanagedObjects(connectionTo),

    // Hashing little costs little.
    verifies: async (cluster, size) =>
      size > smallMax && size <= singleMax && connectionTo(cluster).hashVerification.isVerified(),

    write: (source, write) => writeExtent(connectionTo(write.cluster, write), source, write),

    read(extent, range = { start: 0, end: extent.size - 1 }, signal, use) {
      const connection = connectionTo(extent.cluster, use);
      if (extent.size < 0) throw new ChunkMissing(`extent ${extent.id} was never completed`);
      return readRange(connection, extent, { range, signal });
    },

    async remove(extents) {
      for (const [cluster, group] of Map.groupBy(extents, (extent) => extent.cluster))
        await removeExtents(connectionTo(cluster), group);
    },

    async *find(cluster, ...prefixes) {
      for (const prefix of prefixes) yield* findExtents(connectionTo(cluster), prefix);
    },

    async holdsAnything(cluster) {
      for await (const _ of findExtents(connectionTo(cluster), '')) return true;
      return false;
    },

    async isStored({ cluster, id, foreign: unmanaged }) {
      if (unmanaged !== undefined)
        return (await headObject(connectionTo(cluster), unmanaged.key)) !== undefined;
      for await (const { extent } of findExtents(connectionTo(cluster), `${id}.`)) {
        if (extent.id === id) return true;
      }
      return false;
    },

    health: (only) =>
      Promise.all(
        [...connections.values()].filter(({ id }) => only === undefined || id === only).map(checkHealth),
      ),

    async close() {
      await Promise.all([...connections.values()].map(({ client }) => client.close()));
    },
  };
}

function connect(upstream: Upstream, options: UpstreamStoreOptions): Connection {
  const { id, bucket, prefix } = upstream;
  const { clock, random, hasher, budget, partMemory } = options;
  const client = openUpstreamClient(upstream, { hasher, clock });
  const hashVerification = new HashVerification({ client, prefix, hasher, clock });
  return { id, bucket, prefix, client, hashVerification, clock, random, hasher, budget, partMemory };
}

const healthTimeoutMs = 5_000;

/** Whether the bucket answers; its content is the upstream's concern. */
async function checkHealth({ id: cluster, bucket: pool, client }: Connection): Promise<ClusterHealth> {
  const bucket = { pool, namespace: '', bytesUsed: 0, chunkCount: 0 };
  try {
    await client.ask({ method: 'HEAD', timeoutMs: healthTimeoutMs });
    return { cluster, status: 'ok', problems: [], pools: [{ ...bucket, state: 'reachable' }] };
  } catch (cause) {
    const error = cause instanceof Error ? cause.message : String(cause);
    return {
      cluster,
      status: unreachable,
      problems: [error],
      pools: [{ ...bucket, state: 'error', error }],
    };
  }
}

// The extents upstream under a prefix of ids: objects with their back-references, and incomplete uploads.

/** Back-references are read one by one, several concurrently. */
const headsMax = 16;

async function* findExtents(connection: Connection, prefix: string): AsyncGenerator<FoundExtent> {
  const under = `${connection.prefix}${prefix}`;
  for await (const page of listObjects(connection, under)) {
    for (let from = 0; from < page.length; from += headsMax) {
      const found = await Promise.all(
        page.slice(from, from + headsMax).map((each) => lookAt(connection, each)),
      );
      for (const each of found) if (each !== undefined) yield each;
    }
  }
  for await (const { key } of listUploads(connection, under)) {
    const id = parseKey(connection.prefix, key);
    if (id !== undefined)
      yield { extent: { cluster: connection.id, id, size: unknownSize }, owner: ownerOfUnfinished(id) };
  }
}

/** Undefined for an object that no gateway stored, and for one that was deleted since it was listed. */
async function lookAt(connection: Connection, key: string): Promise<FoundExtent | undefined> {
  const id = parseKey(connection.prefix, key);
  const stored = id === undefined ? undefined : await headObject(connection, key);
  const owner = stored && ownerIn(stored.headers);
  if (id === undefined || stored === undefined || owner === undefined) return undefined;
  return { extent: { cluster: connection.id, id, size: stored.size }, owner };
}

/** An upload shows nothing but its name: what belongs to a session carries the session's id at its end. */
function ownerOfUnfinished(id: string): Owner {
  const [, uploadId] = /\.([0-9a-f]{32})$/.exec(id) ?? [];
  return { bucketId: '', key: '', ...(uploadId === undefined ? {} : { uploadId }) };
}

type Markers = readonly (readonly [string, string])[];

/** One page of a listing, and the markers of the next; undefined where it is the last. */
interface Page<T> {
  readonly items: readonly T[];
  readonly next: Markers | undefined;
}

/** @throws DataUnavailable for the same page as the one before: a service or proxy that repeats it would be listed without end */
async function* listPages<T>(
  connection: Connection,
  query: Markers,
  read: (bytes: Uint8Array) => Page<T>,
): AsyncGenerator<readonly T[]> {
  let markers: Markers = [];
  let first = '';
  for (;;) {
    const sent = markers;
    const { items, next } = await retrying(connection, {}, async () => {
      const { bytes } = await connection.client.ask({ method: 'GET', query: [...query, ...sent] });
      return read(bytes);
    });
    const itsFirst = JSON.stringify(items[0] ?? '');
    const isRepeated = items.length > 0 ? itsFirst === first : JSON.stringify(next) === JSON.stringify(sent);
    if (isRepeated) throw new DataUnavailable(`upstream ${connection.id} lists the same page again`);
    if (items.length > 0) first = itsFirst;
    yield items;
    if (next === undefined) return;
    markers = next;
  }
}

/** @throws UpstreamError where the service says that there is more, and not where: those items would count as missing */
function nextMarkers(
  isTruncated: boolean,
  marker: string | undefined,
  markers: Markers,
): Markers | undefined {
  if (!isTruncated) return undefined;
  if (marker === undefined) throw new UpstreamError('the upstream ended a listing that goes on');
  return markers;
}

const listObjects = (connection: Connection, prefix: string): AsyncGenerator<readonly string[]> => {
  const query: Markers = [
    ['list-type', '2'],
    ['prefix', prefix],
  ];
  return listPages(connection, query, (bytes) => {
    const {
      Contents,
      IsTruncated,
      NextContinuationToken: token,
    } = readAnswer(listing, 'ListBucketResult', bytes);
    const next = nextMarkers(IsTruncated, token, [['continuation-token', token ?? '']]);
    return { items: Contents.map(({ Key }) => Key), next };
  });
};

async function* listUploads(connection: Connection, prefix: string): AsyncGenerator<UpstreamUpload> {
  const query: Markers = [
    ['uploads', ''],
    ['prefix', prefix],
  ];
  const pages = listPages(connection, query, (bytes) => {
    const {
      Upload,
      IsTruncated,
      NextKeyMarker,
      NextUploadIdMarker = '',
    } = readAnswer(uploadListing, 'ListMultipartUploadsResult', bytes);
    const next = nextMarkers(IsTruncated, NextKeyMarker, [
      ['key-marker', NextKeyMarker ?? ''],
      ['upload-id-marker', NextUploadIdMarker],
    ]);
    return { items: Upload.map(({ Key, UploadId }) => ({ key: Key, uploadId: UploadId })), next };
  });
  for await (const uploads of pages) yield* uploads;
}

// Removing extents: an object each, and uploads under the name of one whose size is unknown.

/** Single deletions, because not every S3 service deletes several objects in one request. */
const parallelMax = 16;

async function removeExtents(connection: Connection, extents: readonly Extent[]): Promise<void> {
  for (let from = 0; from < extents.length; from += parallelMax) {
    const removals = extents.slice(from, from + parallelMax).map((each) => removeExtent(connection, each));
    for (const { status, ...outcome } of await Promise.allSettled(removals))
      if (status === 'rejected') throw (outcome as PromiseRejectedResult).reason;
  }
}

async function removeExtent(connection: Connection, { id, size, foreign: unmanaged }: Extent): Promise<void> {
  // The gateway did not store it, and others may read it.
  if (unmanaged !== undefined) return;
  const key = toKey(connection.prefix, id);
  if (size === unknownSize) {
    // First, so that no completion on its way makes an object of it afterwards.
    for await (const upload of listUploads(connection, key))
      if (upload.key === key) await abortUpload(connection, upload);
  }
  await removeObject(connection, key);
}

// Multipart uploads of clients as multipart uploads of the upstream: each part is forwarded, and the result is one object.

const forwardedUploads = (connectionTo: (cluster: string, use?: CallUse) => Connection): UploadBytes => ({
  async begin({ cluster, id, owner, ...use }) {
    const connection = connectionTo(cluster, use);
    const key = toKey(connection.prefix, id);
    const { uploadId } = await beginUpload(connection, { key, headers: ownerHeaders(owner) });
    return { cluster, bucket: connection.bucket, key, uploadId };
  },

  async writePart(source, { upload, part, size, confirm, claimed, signal, ...use }) {
    // Upstreams want to know, and a part is too much to hold.
    if (size === undefined) throw fail('MissingContentLength');
    const query = buildQuery(upload, part);
    try {
      const receipt = await put(connectionTo(upload.cluster, use), {
        key: upload.key,
        query,
        source,
        size,
        confirm,
        claimed,
        signal,
      });
      return { part, size, receipt };
    } catch (cause) {
      if (isGone(cause, 'NoSuchUpload'))
        throw new UploadGone(`no upload ${upload.uploadId} upstream`, { cause });
      throw cause;
    }
  },

  complete(upload, parts, use) {
    const size = parts.reduce((sum, part) => sum + part.size, 0);
    const listed = parts.map(({ part, receipt }) => ({ part, etag: receipt }));
    const { isOnlyList = false } = use ?? {};
    return assemble(connectionTo(upload.cluster, use), upload, { parts: listed, size, isOnlyList });
  },

  async discard(upload, use) {
    const connection = connectionTo(upload.cluster, use);
    // First, so that no completion on its way makes an object of it afterwards.
    await abortUpload(connection, upload);
    await removeObject(connection, upload.key);
  },
});

const buildQuery = ({ uploadId }: ForwardedUpload, part: number) =>
  [
    ['partNumber', String(part)],
    ['uploadId', uploadId],
  ] as const;

/** Ranges up to this size are returned as one array. */
const wholeMax = 64 * 1024;
/** A reader may use the last array while it requests the next (`ObjectBytes.read`). */
const loanedMax = 2;

/** Reading a range: passed through as one, and taken up where it broke off. */
async function* readRange(
  connection: Connection,
  extent: Extent,
  { range, signal }: { readonly range: ByteRange; readonly signal: AbortSignal | undefined },
): AsyncGenerator<Uint8Array> {
  const end = Math.min(range.end, extent.size - 1);
  const attempts = new Attempts(connection, signal);
  const loaned = new LoanedArrays(loanedMax);
  for (let at = range.start; at <= end; ) {
    try {
      for await (const piece of readPieces(connection, extent, { range: { start: at, end }, signal })) {
        at += piece.length;
        attempts.progress();
        loaned.lend(piece);
        yield piece;
      }
    } catch (cause) {
      signal?.throwIfAborted();
      if (isGone(cause, 'NoSuchKey'))
        throw new ChunkMissing(`extent ${extent.id} is not upstream`, { cause });
      if (extent.foreign !== undefined && cause instanceof UpstreamError && cause.status === 412)
        throw new ChunkDamaged(
          `upstream object ${extent.foreign.key} changed since it was imported with ETag ${extent.foreign.etag}`,
          { cause },
        );
      await attempts.failed(cause, { isRepeatable: true });
    }
  }
}

async function* readPieces(
  { client, prefix }: Connection,
  extent: Extent,
  { range, signal }: { readonly range: ByteRange; readonly signal: AbortSignal | undefined },
): AsyncGenerator<Uint8Array> {
  const { start, end } = range;
  const reply = await client.send({
    method: 'GET',
    key: extent.foreign?.key ?? toKey(prefix, extent.id),
    headers: {
      range: `bytes=${start}-${end}`,
      ...(extent.foreign === undefined ? {} : { 'if-match': `"${extent.foreign.etag}"` }),
    },
    signal,
  });
  try {
    check(reply, extent, range);
    const requested = end - start + 1;
    let got = 0;
    const whole = requested <= wholeMax ? new Uint8Array(requested) : undefined;
    for await (const piece of pieces(reply)) {
      if (got + piece.length > requested)
        throw new UpstreamError(`extent ${extent.id} came longer than it is`);
      whole?.set(piece, got);
      got += piece.length;
      if (whole === undefined) yield piece;
    }
    if (got < requested)
      throw new UpstreamError(`extent ${extent.id} broke off ${requested - got} bytes early`);
    if (whole !== undefined) yield whole;
  } finally {
    reply.body.destroy();
  }
}

async function* pieces({ body }: UpstreamReply): AsyncGenerator<Uint8Array> {
  try {
    yield* body as AsyncIterable<Uint8Array>;
  } catch (cause) {
    throw new UpstreamError('an upstream answer broke off', { cause });
  }
}

function check({ status, headers }: UpstreamReply, extent: Extent, { start, end }: ByteRange): void {
  const { size } = extent;
  const isWhole =
    status === 200 && start === 0 && end === size - 1 && headers['content-length'] === String(size);
  if (isWhole || headers['content-range'] === `bytes ${start}-${end}/${size}`) return;
  throw new ChunkDamaged(
    `extent ${extent.id} has ${size} bytes, but upstream ${headers['content-range'] ?? headers['content-length']}`,
  );
}

// Objects that clients put into the upstream bucket themselves, for `sluice import` (docs/adr/0015-import-of-upstream-objects.md).

const userPrefix = `${amz.headerPrefix}meta-`;

const unmanagedObjects = (connectionTo: (cluster: string) => Connection): UnmanagedObjects => ({
  refusal(cluster) {
    const { prefix } = connectionTo(cluster);
    return prefix === ''
      ? `upstream ${cluster} has an empty prefix, so objects of clients cannot be told from those of the gateway`
      : undefined;
  },

  async list(cluster, { after, token, max, signal }) {
    const connection = connectionTo(cluster);
    const query: [string, string][] = [
      ['encoding-type', 'url'],
      ['list-type', '2'],
      ['max-keys', String(max)],
    ];
    if (token !== undefined) query.push(['continuation-token', token]);
    else if (after !== '') query.push(['start-after', after]);
    const page = await retrying(connection, { signal }, async () => {
      const { bytes } = await connection.client.ask({ method: 'GET', query, signal });
      return readAnswer(unmanagedListing, 'ListBucketResult', bytes);
    });
    const decode = page.EncodingType === 'url' ? decodeKey : (key: string) => key;
    const keys = page.Contents.map(({ Key }) => decode(Key));
    const last = keys.findLast((key) => key !== undefined) ?? after;
    const isUnreadable = keys.length > 0 && keys.at(-1) === undefined;
    // A request cannot name a key that is no UTF-8.
    const next = isUnreadable ? page.NextContinuationToken : undefined;
    const goesOn = isUnreadable ? next !== undefined && next !== token : last !== after && keys[0] !== after;
    // A service that ignores `start-after` would be listed from its beginning without end.
    if (page.IsTruncated && !goesOn)
      throw new UpstreamError(`upstream ${cluster} does not list the keys behind ${JSON.stringify(after)}`);
    return readPage(connection, page.Contents, {
      keys,
      ...(page.IsTruncated ? { last, token: next } : { last: undefined }),
    });
  },

  async describe(cluster, key, signal) {
    const connection = connectionTo(cluster);
    const headers = await readHeaders(connection, key, signal);
    if (headers === undefined || ownerIn(headers) !== undefined) return undefined;
    const object: UnmanagedObject = {
      key,
      size: Number(headers['content-length']),
      etag: etagIn(headers),
      modified: Date.parse(headers['last-modified'] ?? ''),
    };
    return isSound(object) ? { ...object, ...described(headers) } : undefined;
  },
});

interface Listed {
  readonly Key: string;
  readonly Size: number;
  readonly ETag?: string | undefined;
  readonly LastModified?: string | undefined;
  readonly StorageClass?: string | undefined;
}

function readPage(
  { prefix }: Connection,
  contents: readonly Listed[],
  {
    keys,
    ...next
  }: Pick<UnmanagedPage, 'last' | 'token'> & { readonly keys: readonly (string | undefined)[] },
): UnmanagedPage {
  const unreadable = contents.flatMap(({ Key }, i) => (keys[i] === undefined ? [Key] : []));
  const objects = contents.flatMap(({ Size, ETag = '', LastModified = '', StorageClass = '' }, i) => {
    const key = keys[i];
    if (key === undefined) return [];
    const object = { key, size: Size, etag: ETag.replaceAll('"', ''), modified: Date.parse(LastModified) };
    // Extents, the mark of the installation and the probe are below the prefix.
    const isOurs = key.startsWith(prefix);
    // A GET of an archived object is refused until it is restored there.
    return isOurs || isArchive(StorageClass) || !isSound(object) ? [] : [object];
  });
  const skipped = contents.length - objects.length - unreadable.length;
  return { objects, skipped, unreadable, ...next };
}

const isSound = ({ size, etag, modified }: UnmanagedObject): boolean =>
  Number.isSafeInteger(size) && etag !== '' && Number.isFinite(modified);

/** Undefined for an object that does not exist, or that the upstream describes only to requests with its key (SSE-C). */
const readHeaders = (
  connection: Connection,
  key: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>> | undefined> =>
  retrying(connection, { signal }, async () => {
    try {
      return await readHead(connection, key, signal);
    } catch (cause) {
      const needsKey = cause instanceof UpstreamError && cause.status === 400 && cause.code !== '';
      if (needsKey || isGone(cause, 'NoSuchKey')) return undefined;
      throw cause;
    }
  });

function described(headers: Readonly<Record<string, string>>): Pick<UnmanagedDetails, 'system' | 'user'> {
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

/** Some services write a space as `+`; all write a plus sign as `%2B`. @returns undefined for a key that is no UTF-8 */
const decodeKey = (encoded: string): string | undefined => {
  try {
    return decodeURIComponent(encoded.replaceAll('+', '%20'));
  } catch {
    return undefined;
  }
};

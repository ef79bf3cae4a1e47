/** The operations of a load, each as one step of one client over its own connection. */
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { type Answer, type Connection, headerOf } from './connection.ts';
import { type Call, type ChunkedBody, chunkHashes, type Signer, sha256Of, unsigned } from './sign.ts';

export interface World {
  readonly signer: Signer;
  readonly bucket: string;
  /** The number of buckets, which are used in turn; each is named with its number. */
  readonly buckets: number | undefined;
  /** The content of every object. */
  readonly body: Uint8Array;
  readonly bodyHash: string;
  /** Bodies with a CRC32C as their trailer: that of an object, and those of the parts of a multipart upload. */
  readonly whole: ChunkedBody;
  readonly parts: readonly ChunkedBody[];
  /** Distinct keys; a put beyond them overwrites. */
  readonly keys: number;
  /** One turn's key lies far from that of the next. */
  readonly isScattered: boolean;
}

/** One step. `turn` counts up over all clients of a run. @returns bytes of content moved */
export type Step = (world: World, connection: Connection, turn: number) => Promise<number>;

export interface OperationPlan {
  readonly doc: string;
  readonly step: Step;
  /** Whether the keys must exist before the run; `once` if each step consumes a key. */
  readonly needs?: 'objects' | 'once';
  /** Whether the default encryption of the bucket is SSE-S3. */
  readonly encrypted?: true;
  /** Bytes of content in the bodies of one step; 0 when the operation has none. */
  readonly bodies: 0 | 1;
}

export interface WorldOptions {
  readonly bucket: string;
  readonly buckets?: number | undefined;
  readonly size: number;
  readonly keys: number;
  readonly isScattered?: boolean | undefined;
}

export const worldOf = (
  signer: Signer,
  { bucket, buckets, size, keys, isScattered = false }: WorldOptions,
): World => {
  const body = Buffer.alloc(size);
  for (let at = 0; at < size; at++) body[at] = (at * 31 + (at >> 8)) & 0xff;
  const parts = Array.from({ length: partsOf(size) }, (_, n) => withTrailer(partOf(body, n + 1)));
  return {
    signer,
    bucket,
    buckets,
    body,
    bodyHash: sha256Of(body),
    whole: withTrailer(body),
    parts,
    keys,
    isScattered,
  };
};

/** The body in one signed chunk with a signed trailer, as SDKs send it. */
export const withTrailer = (bytes: Uint8Array): ChunkedBody => ({
  bytes,
  hashes: chunkHashes(bytes),
  crc32c: Buffer.from(nodeHasher().once('crc32c', bytes)).toString('base64'),
});

/** The smallest size of a part that is not the last (public API). */
const partBytesMin = 5 * 1024 * 1024;
const partsOf = (size: number): number => Math.max(1, Math.min(8, Math.floor(size / partBytesMin)));
function partOf(body: Uint8Array, number: number): Uint8Array {
  const partBytes = Math.ceil(body.length / partsOf(body.length));
  return body.subarray((number - 1) * partBytes, number * partBytes);
}

const bucketOf = ({ bucket, buckets }: World, turn: number): string =>
  buckets === undefined ? bucket : `${bucket}-${turn % buckets}`;
/** A prime, so that scattered turns meet every key. */
const scatter = 7_368_787;
export const keyOf = (number: number): string => `object-${String(number).padStart(8, '0')}`;
const keyAt = ({ keys, isScattered }: World, turn: number): string =>
  keyOf((isScattered ? turn * scatter : turn) % keys);
const pathOf = (world: World, turn: number): string => `/${bucketOf(world, turn)}/${keyAt(world, turn)}`;

function expect(answer: Answer, bytes: number, call: Call): number {
  if (answer.status >= 300 || (bytes >= 0 && answer.bytes !== bytes))
    throw new Error(
      `${call.method} ${call.path} answered ${answer.status} with ${answer.bytes} bytes\n${answer.head}${answer.text}`,
    );
  return answer.bytes;
}

const put: Step = async (world, connection, turn) => {
  const { signer, body, bodyHash } = world;
  const call = { method: 'PUT', path: pathOf(world, turn), payloadHash: bodyHash, length: body.length };
  expect(await connection.send([signer.header(call), body]), -1, call);
  return body.length;
};

const putUnsigned: Step = async (world, connection, turn) => {
  const { signer, body } = world;
  const call = { method: 'PUT', path: pathOf(world, turn), payloadHash: unsigned, length: body.length };
  expect(await connection.send([signer.header(call), body]), -1, call);
  return body.length;
};

const putPresigned: Step = async (world, connection, turn) => {
  const { signer, body } = world;
  const call = { method: 'PUT', path: pathOf(world, turn), length: body.length };
  expect(await connection.send([signer.presigned(call), body]), -1, call);
  return body.length;
};

const putChunked: Step = async (world, connection, turn) => {
  const { bytes, hashes } = world.whole;
  const call = { method: 'PUT', path: pathOf(world, turn) };
  expect(await connection.send(world.signer.chunked(call, { bytes, hashes })), -1, call);
  return bytes.length;
};

const putTrailer: Step = async (world, connection, turn) => {
  const call = { method: 'PUT', path: pathOf(world, turn) };
  expect(await connection.send(world.signer.chunked(call, world.whole)), -1, call);
  return world.body.length;
};

const get: Step = async (world, connection, turn) => {
  const call = { method: 'GET', path: pathOf(world, turn) };
  return expect(await connection.send([world.signer.header(call)]), world.body.length, call);
};

const getPresigned: Step = async (world, connection, turn) => {
  const call = { method: 'GET', path: pathOf(world, turn) };
  return expect(await connection.send([world.signer.presigned(call)]), world.body.length, call);
};

const stat: Step = async (world, connection, turn) => {
  const call = { method: 'HEAD', path: pathOf(world, turn) };
  expect(await connection.send([world.signer.header(call)], { isHead: true }), 0, call);
  return 0;
};

const listOf =
  (maxKeys: number): Step =>
  async (world, connection) => {
    const call = { method: 'GET', path: `/${world.bucket}`, query: `list-type=2&max-keys=${maxKeys}` };
    expect(await connection.send([world.signer.header(call)]), -1, call);
    return 0;
  };
const list = listOf(1000);

const listAfter: Step = async (world, connection, turn) => {
  const query = `list-type=2&max-keys=100&start-after=${keyAt(world, turn)}`;
  const call = { method: 'GET', path: `/${bucketOf(world, turn)}`, query };
  expect(await connection.send([world.signer.header(call)]), -1, call);
  return 0;
};

const remove: Step = async (world, connection, turn) => {
  const call = { method: 'DELETE', path: pathOf(world, turn) };
  expect(await connection.send([world.signer.header(call)]), -1, call);
  return 0;
};

/** The requests of a file share: GET, HEAD, PUT and some DELETE, over existing keys. */
const mixedOf =
  (put: Step): Step =>
  async (world, connection, turn) => {
    const place = turn % 20;
    if (place < 9) return get(world, connection, turn * 7);
    if (place < 13) return stat(world, connection, turn * 7);
    if (place < 18) return put(world, connection, turn * 7);
    if (place === 18) return list(world, connection, turn);
    const path = `/${world.bucket}/passing-${turn}`;
    const { signer, body, bodyHash } = world;
    const call = { method: 'PUT', path, payloadHash: bodyHash, length: body.length };
    expect(await connection.send([signer.header(call), body]), -1, call);
    const gone = { method: 'DELETE', path };
    expect(await connection.send([signer.header(gone)]), -1, gone);
    return body.length;
  };

type Frames = (world: World, call: Call, number: number) => readonly (string | Uint8Array)[];

const unsignedPart: Frames = ({ signer, body }, call, number) => {
  const content = partOf(body, number);
  return [signer.header({ ...call, payloadHash: unsigned, length: content.length }), content];
};
const partWithTrailer: Frames = ({ signer, parts }, call, number) =>
  signer.chunked(call, parts[number - 1] as ChunkedBody);

const multipartOf =
  (frames: Frames): Step =>
  async (world, connection, turn) => {
    const { signer, body } = world;
    const path = pathOf(world, turn);
    const begin = { method: 'POST', path, query: 'uploads=', length: 0 };
    const begun = await connection.send([signer.header(begin)], { keep: true });
    expect(begun, -1, begin);
    const id = /<UploadId>([^<]+)</.exec(begun.text)?.[1] ?? '';
    let parts = '';
    for (let number = 1; number <= partsOf(body.length); number++) {
      const query = `partNumber=${number}&uploadId=${encodeURIComponent(id)}`;
      const call = { method: 'PUT', path, query };
      const answer = await connection.send(frames(world, call, number));
      expect(answer, -1, call);
      parts += `<Part><PartNumber>${number}</PartNumber><ETag>${headerOf(answer.head, 'etag')}</ETag></Part>`;
    }
    const text = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts}</CompleteMultipartUpload>`;
    const query = `uploadId=${encodeURIComponent(id)}`;
    const end = {
      method: 'POST',
      path,
      query,
      payloadHash: sha256Of(Buffer.from(text)),
      length: text.length,
    };
    expect(await connection.send([signer.header(end) + text], { keep: true }), -1, end);
    return body.length;
  };

export const operations = {
  put: { doc: 'PutObject, payload signed by its SHA-256', step: put, bodies: 1 },
  'put-unsigned': { doc: 'PutObject, payload unsigned', step: putUnsigned, bodies: 1 },
  'put-presigned': { doc: 'PutObject by a presigned URL', step: putPresigned, bodies: 1 },
  'put-trailer': {
    doc: 'PutObject, aws-chunked with signed chunks of 64 KiB and a CRC32C as signed trailer',
    step: putTrailer,
    bodies: 1,
  },
  'put-chunked': { doc: 'PutObject, aws-chunked with signed chunks of 64 KiB', step: putChunked, bodies: 1 },
  get: { doc: 'GetObject', step: get, needs: 'objects', bodies: 1 },
  'get-presigned': { doc: 'GetObject by a presigned URL', step: getPresigned, needs: 'objects', bodies: 1 },
  'put-sse': { doc: 'PutObject, encrypted by SSE-S3', step: put, bodies: 1, encrypted: true },
  'get-sse': {
    doc: 'GetObject, encrypted by SSE-S3',
    step: get,
    needs: 'objects',
    bodies: 1,
    encrypted: true,
  },
  stat: { doc: 'HeadObject', step: stat, needs: 'objects', bodies: 0 },
  list: { doc: 'ListObjectsV2, a page of up to 1,000 keys', step: list, needs: 'objects', bodies: 0 },
  'list-100': { doc: 'ListObjectsV2, a page of 100 keys', step: listOf(100), needs: 'objects', bodies: 0 },
  'list-after': { doc: 'ListObjectsV2, 100 keys after one', step: listAfter, needs: 'objects', bodies: 0 },
  delete: { doc: 'DeleteObject of keys that exist', step: remove, needs: 'once', bodies: 0 },
  mixed: {
    doc: '45 % get, 20 % stat, 25 % put, 5 % list, 5 % put and delete',
    step: mixedOf(put),
    needs: 'objects',
    bodies: 1,
  },
  'mixed-trailer': {
    doc: 'the same, put with signed chunks and a signed trailer',
    step: mixedOf(putTrailer),
    needs: 'objects',
    bodies: 1,
  },
  multipart: { doc: 'create, up to 8 unsigned parts, complete', step: multipartOf(unsignedPart), bodies: 1 },
  'multipart-trailer': {
    doc: 'the same, parts with signed chunks and a signed trailer',
    step: multipartOf(partWithTrailer),
    bodies: 1,
  },
} as const satisfies Readonly<Record<string, OperationPlan>>;

export type OperationName = keyof typeof operations;
export const isOperation = (name: string): name is OperationName => Object.hasOwn(operations, name);

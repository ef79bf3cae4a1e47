/**
 * The floor of small objects on node:net. Each signature is verified. A PUT verifies its chunk and trailer, computes
 * MD5, and appends bytes and row to one file that is flushed once for all that wait; a GET reads and verifies the
 * bytes. Nothing is authorized, counted or recorded.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import net, { type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { crc32c } from '../../src/backends/crypto/node.ts';
import { assertSame, readRequest, type SignedRequest, verifyContent, verifyRequest } from './verify.ts';

const log = fs.openSync(join(process.argv[2] as string, 'log'), 'w+');
const page = Buffer.allocUnsafeSlow(64 * 1024);
let logEnd = 0;
const now = (): string => new Date().toUTCString();

type Row = { at: number; size: number; crc: number; etag: string; time: string };
type Bucket = { rows: Map<string, Row>; sorted: string[] | undefined };
const buckets = new Map<string, Bucket>();

let [waiting, flushing] = [[] as { pieces: Uint8Array[]; done: () => void }[], false];
function flush(): void {
  if (flushing || waiting.length === 0) return;
  const batch = waiting;
  [waiting, flushing] = [[], true];
  const pieces = batch.flatMap((each) => each.pieces);
  fs.writevSync(log, pieces);
  fs.fdatasync(log, () => {
    flushing = false;
    for (const { done } of batch) done();
    flush();
  });
}

function put(bucket: Bucket, name: string, content: Buffer, crc: number, done: (row: Row) => void): void {
  const row = {
    at: logEnd,
    size: content.length,
    crc,
    etag: `"${hash('md5', content, 'hex')}"`,
    time: now(),
  };
  const pieces = [content, Buffer.from(JSON.stringify([name, row]))];
  for (const { length } of pieces) logEnd += length;
  const apply = (): void => {
    if (!bucket.rows.has(name)) bucket.sorted = undefined;
    bucket.rows.set(name, row);
    done(row);
  };
  waiting.push({ pieces, done: apply });
  setImmediate(flush);
}

function list({ rows }: Bucket, keys: readonly string[]): string {
  const entryOf = (key: string, { size, etag, time }: Row): string =>
    `<Contents><Key>${key}</Key><LastModified>${time}</LastModified><ETag>${etag}</ETag><Size>${size}</Size></Contents>`;
  return `<ListBucketResult>${keys.map((key) => entryOf(key, rows.get(key) as Row)).join('')}</ListBucketResult>`;
}

function answer(socket: Socket, request: SignedRequest, body: Buffer): void {
  const { method, path, query } = request;
  const signature = verifyRequest(request);
  const [, bucketName = '', name = ''] = path.split('/');
  const bucket = buckets.get(bucketName) ?? { rows: new Map<string, Row>(), sorted: undefined };
  buckets.set(bucketName, bucket);
  const row = bucket.rows.get(name);
  const head = (status: number, length: number, of?: Row): string =>
    `HTTP/1.1 ${status} OK\r\nx-amz-request-id: ${signature}\r\nDate: ${now()}\r\nContent-Length: ${length}\r\n${of === undefined ? '' : `ETag: ${of.etag}\r\nLast-Modified: ${of.time}\r\n`}\r\n`;
  if (method === 'PUT' && name !== '') {
    const { content, crc } = verifyContent(body, request, signature);
    put(bucket, name, content, crc, (stored) => socket.write(head(200, 0, stored), 'latin1'));
  } else if (row !== undefined && method === 'GET') {
    const bytes = page.subarray(0, fs.readSync(log, page, 0, row.size, row.at));
    assertSame(crc32c(bytes), row.crc);
    socket.write(Buffer.concat([Buffer.from(head(200, row.size, row), 'latin1'), bytes]));
  } else if (row !== undefined && method === 'HEAD') socket.write(head(200, row.size, row), 'latin1');
  else if (method === 'DELETE') {
    if (bucket.rows.delete(name)) bucket.sorted = undefined;
    socket.write(head(204, 0), 'latin1');
  } else {
    bucket.sorted ??= [...bucket.rows.keys()].sort();
    const text = list(bucket, bucket.sorted.slice(0, Number(query.split('max-keys=')[1] ?? 0)));
    socket.write(head(200, text.length) + text, 'latin1');
  }
}

const server = net.createServer({ noDelay: true }, (socket) => {
  let buffered: Buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (bytes: Buffer) => {
    buffered = buffered.length === 0 ? bytes : Buffer.concat([buffered, bytes]);
    const end = buffered.indexOf('\r\n\r\n') + 4;
    if (end < 4) return;
    const request = readRequest(buffered.toString('latin1', 0, end - 4));
    if (buffered.length < end + Number(request.headers.get('content-length') ?? 0)) return;
    answer(socket, request, buffered.subarray(end));
    buffered = Buffer.alloc(0);
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));

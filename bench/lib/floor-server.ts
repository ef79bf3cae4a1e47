/**
 * The floor of large bodies on node:http. A PUT receives, computes SHA-256, MD5 and the CRC32C of the trailer and of each block, writes,
 * flushes, renames and answers; a GET reads, verifies the blocks and sends. Parts of an upload are files. Nothing is
 * authenticated or recorded.
 */
import { createHash, hash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { crc32c } from '../../src/backends/crypto/node.ts';

const directory = process.argv[2] as string;
const [pieceBytes, blockBytes] = [256 * 1024, 64 * 1024];
const [write, flush] = [promisify(fs.write), promisify(fs.fdatasync)];
const spare: Buffer[] = [];
const borrow = (): Buffer => spare.pop() ?? Buffer.allocUnsafeSlow(pieceBytes);
/** The CRCs of each stored file. */
const stored = new Map<string, number[]>();
let writes = 0;

const verifiedCrcs = (piece: Buffer): number[] =>
  Array.from({ length: Math.ceil(piece.length / blockBytes) }, (_, n) =>
    crc32c(piece.subarray(n * blockBytes, (n + 1) * blockBytes)),
  );

/** Cuts the content out of a body in chunks; the views are those of the arrays that arrive. */
async function* contentOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  if (request.headers['x-amz-decoded-content-length'] === undefined) return yield* request;
  let [left, line] = [0, ''];
  for await (const array of request as AsyncIterable<Buffer>) {
    for (let at = 0; at < array.length; ) {
      if (left > 0) {
        const piece = array.subarray(at, at + left);
        [left, at] = [left - piece.length, at + piece.length];
        yield piece;
        continue;
      }
      const end = array.indexOf('\n', at);
      line += array.toString('latin1', at, end < 0 ? array.length : end);
      at = end < 0 ? array.length : end + 1;
      if (end < 0) continue;
      left = line.includes(';') ? Number.parseInt(line, 16) : 0;
      line = '';
    }
  }
}

async function put(request: IncomingMessage, path: string): Promise<string> {
  const [md5, crcs, temporary] = [createHash('md5'), [] as number[], `${path}.${writes++}`];
  const fd = fs.openSync(temporary, 'w');
  const piece = borrow();
  let [filled, position, sum] = [0, 0, 0];
  const store = async (): Promise<void> => {
    const bytes = piece.subarray(0, filled);
    for (let at = 0; at < filled; at += blockBytes)
      hash('sha256', bytes.subarray(at, at + blockBytes), 'hex');
    md5.update(bytes);
    sum = crc32c(bytes, sum);
    crcs.push(...verifiedCrcs(bytes));
    await write(fd, bytes, 0, filled, position);
    [position, filled] = [position + filled, 0];
  };
  for await (const content of contentOf(request)) {
    for (let at = 0; at < content.length; ) {
      const count = content.copy(piece, filled, at);
      [at, filled] = [at + count, filled + count];
      if (filled === pieceBytes) await store();
    }
  }
  if (filled > 0) await store();
  await flush(fd);
  fs.closeSync(fd);
  fs.renameSync(temporary, path);
  spare.push(piece);
  stored.set(path, crcs);
  return md5.digest('hex');
}

async function get(response: ServerResponse, path: string): Promise<void> {
  const [fd, crcs, pieces] = [fs.openSync(path, 'r'), stored.get(path) ?? [], [borrow(), borrow()] as const];
  const { size } = fs.fstatSync(fd);
  response.writeHead(200, { 'content-length': size });
  for (let at = 0; at < size; at += pieceBytes) {
    const piece = pieces[(at / pieceBytes) & 1] as Buffer;
    const bytes = piece.subarray(0, fs.readSync(fd, piece, 0, pieceBytes, at));
    if (verifiedCrcs(bytes).some((crc, n) => crc !== crcs[at / blockBytes + n])) throw new Error('damaged');
    if (!response.write(bytes)) await once(response, 'drain');
  }
  response.end(() => spare.push(...pieces));
  fs.closeSync(fd);
}

const server = http.createServer(async (request, response) => {
  const path = `${directory}/${(request.url ?? '').replaceAll('/', '_')}`;
  if (request.method === 'GET') await get(response, path);
  else if (request.method === 'POST') response.end('<UploadId>u</UploadId>');
  else response.writeHead(200, { etag: await put(request, path), 'content-length': 0 }).end();
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));

/**
 * The floor: node:http alone, which sends the bytes and headers of an object server. It sends from memory or, with a directory as
 * its argument, large bodies from a file there.
 */
import { createReadStream, truncateSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';

const directory = process.argv[2];

const etag = '"d41d8cd98f00b204e9800998ecf8427e"';
const requestId = '0123456789abcdef0123456789abcdef';
const common = ['x-amz-request-id', requestId, 'x-amz-id-2', requestId, 'ETag', etag];
const describing = [
  ...common,
  'Last-Modified',
  'Sat, 21 Nov 2026 12:00:00 GMT',
  'Accept-Ranges',
  'bytes',
  'Content-Type',
  'binary/octet-stream',
  'Content-Length',
];
const piece = Buffer.alloc(256 * 1024, 1);
const small = Buffer.alloc(64 * 1024, 1);
/** A GET returns as many bytes as the last PUT sent. */
let size = 0;

/** The bodies by size. Each is created at the first request, of allocated bytes. */
const files = new Map<number, string>();
function fileOf(parent: string): string {
  let path = files.get(size);
  if (path === undefined) {
    path = `${parent}/${size}`;
    writeFileSync(path, '');
    for (let at = 0; at < size; at += piece.length) writeFileSync(path, piece, { flag: 'a' });
    truncateSync(path, size);
    files.set(size, path);
  }
  return path;
}

function answerBody(response: http.ServerResponse): void {
  if (size <= small.length) {
    response.end(small.subarray(0, size));
    return;
  }
  if (directory !== undefined) {
    pipeline(createReadStream(fileOf(directory)), response, () => {});
    return;
  }
  let left = size;
  const next = (): void => {
    while (left > 0) {
      const length = Math.min(left, piece.length);
      left -= length;
      if (left === 0) response.end(piece.subarray(0, length));
      else if (!response.write(piece.subarray(0, length))) {
        response.once('drain', next);
        return;
      }
    }
  };
  next();
}

const server = http.createServer({ noDelay: true }, (request, response) => {
  if (request.method === 'PUT') {
    let received = 0;
    request.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    request.on('end', () => {
      size = received;
      response.writeHead(200, [...common, 'Content-Length', '0']).end();
    });
    return;
  }
  response.writeHead(200, [...describing, String(size)]);
  if (request.method === 'HEAD') response.end();
  else answerBody(response);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));

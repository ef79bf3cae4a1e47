/**
 * The floor of what a small request allocates, in the place of a gateway. Each signature is verified. A PUT verifies
 * its content, computes MD5, appends the bytes to a file and commits a row to lmdb; a GET reads row and bytes and
 * verifies them; a LIST reads a hundred rows. Nothing is authorized, counted or recorded.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import { crc32c } from '../../src/backends/crypto/node.ts';
import type { Gateway } from '../../src/gateway.ts';
import type { HeaderPair, Reply } from '../../src/protocol/reply.ts';
import type { Incoming } from '../../src/protocol/wire.ts';
import { assertSame, verifyContent, verifyRequest } from './verify.ts';

interface Row {
  readonly at: number;
  readonly size: number;
  readonly crc: number;
  readonly etag: string;
  readonly time: string;
}

const now = (): string => new Date().toUTCString();

async function gather(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  const [first, ...others] = pieces;
  return first !== undefined && others.length === 0
    ? Buffer.from(first.buffer, first.byteOffset, first.length)
    : Buffer.concat(pieces);
}

export function openFloor(directory: string): Pick<Gateway, 'handle'> & { close(): Promise<void> } {
  const bytes = fs.openSync(join(directory, 'bytes'), 'w+');
  const rows = open<Row, string>({ path: join(directory, 'rows'), noSync: true });
  let end = 0;

  const append = (content: Buffer): Promise<void> =>
    new Promise((done, refuse) =>
      fs.write(bytes, content, (error) => (error === null ? done() : refuse(error))),
    );

  async function put(name: string, content: Buffer, crc: number): Promise<Row> {
    const etag = `"${hash('md5', content, 'hex')}"`;
    const row = { at: end, size: content.length, crc, etag, time: now() };
    end += content.length;
    await append(content);
    await rows.put(name, row);
    return row;
  }

  function read({ at, size, crc }: Row): Buffer {
    const content = Buffer.allocUnsafeSlow(size);
    fs.readSync(bytes, content, 0, size, at);
    assertSame(crc32c(content), crc);
    return content;
  }

  function list(prefix: string, limit: number): string {
    let text = '<ListBucketResult>';
    for (const { key, value } of rows.getRange({ start: prefix, limit })) {
      const name = key.slice(prefix.length);
      text += `<Contents><Key>${name}</Key><LastModified>${value.time}</LastModified><ETag>${value.etag}</ETag><Size>${value.size}</Size></Contents>`;
    }
    return `${text}</ListBucketResult>`;
  }

  async function handle({ wire, body }: Incoming): Promise<Reply> {
    const { method, target, headers } = wire;
    const [path = '', query = ''] = target.split('?');
    const signed = { method, path, query, headers };
    const signature = verifyRequest(signed);
    const common: HeaderPair[] = [
      ['x-amz-request-id', signature],
      ['Date', now()],
    ];
    if (body !== undefined) {
      const { content, crc } = verifyContent(await gather(body), signed, signature);
      const { etag } = await put(path, content, crc);
      return { status: 200, headers: [...common, ['ETag', etag]] };
    }
    if (query !== '') return { status: 200, headers: common, body: list(`${path}/`, 100) };
    const row = rows.get(path);
    if (row === undefined) return { status: method === 'PUT' ? 200 : 404, headers: common };
    common.push(['ETag', row.etag], ['Last-Modified', row.time], ['Content-Length', String(row.size)]);
    return method === 'HEAD'
      ? { status: 200, headers: common }
      : { status: 200, headers: common, body: read(row) };
  }

  return {
    handle,
    close: async () => {
      fs.closeSync(bytes);
      await rows.close();
    },
  };
}

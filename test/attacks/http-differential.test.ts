/**
 * The listener's own reading of HTTP beside the parser of node:http (llhttp). Whatever the listener takes, node:http
 * takes too, with the same targets, headers and bodies: a request that only one of two readers sees is how requests are
 * smuggled past a proxy.
 */
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { openDice } from '../support/dice.ts';
import { serveStub, text } from '../support/server-stub.ts';

interface Seen {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly string[];
  readonly body: string;
}

interface Reader {
  /** Sends the bytes in the given pieces, and the end of the connection. @returns the requests that were read completely */
  read(pieces: readonly Buffer[], waitMs: number): Promise<readonly Seen[]>;
}

async function exchange(port: number, pieces: readonly Buffer[], waitMs: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.setNoDelay(true);
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise(setImmediate);
  }
  // Both take the end for a client that has gone, so let them read before it.
  await new Promise((resolve) => setTimeout(resolve, waitMs));
  socket.end();
  await closed;
}

async function ownReader(): Promise<Reader> {
  let seen: Seen[] = [];
  const { port } = await serveStub(async ({ wire, body }) => {
    const parts: Uint8Array[] = [];
    for await (const part of body ?? []) parts.push(Uint8Array.from(part));
    const headers = [...wire.headers.names()].flatMap((name) => [name, ...wire.headers.all(name)]);
    seen.push({
      method: wire.method,
      target: wire.target,
      headers,
      body: Buffer.concat(parts).toString('latin1'),
    });
    return text('ok');
  });
  return {
    async read(pieces, waitMs) {
      seen = [];
      await exchange(port, pieces, waitMs);
      return seen;
    },
  };
}

/** Reads a stream again, with more time, where the machine was too slow for the end of the connection. */
async function compare(own: Reader, peer: Reader, pieces: readonly Buffer[]): Promise<readonly Seen[]> {
  for (const waitMs of [4, 100, 1000]) {
    const [ours, theirs] = [await own.read(pieces, waitMs), await peer.read(pieces, waitMs)];
    const prefix = theirs.slice(0, ours.length);
    if (waitMs < 1000 && !isDeepStrictEqual(ours, prefix)) continue;
    expect(ours, JSON.stringify(Buffer.concat(pieces).toString('latin1'))).toEqual(prefix);
    return ours;
  }
  return [];
}

function grouped(flat: readonly string[]): string[] {
  const values = new Map<string, string[]>();
  for (let i = 0; i < flat.length; i += 2) {
    const name = (flat[i] as string).toLowerCase();
    values.set(name, [...(values.get(name) ?? []), flat[i + 1] as string]);
  }
  return [...values].flatMap(([name, all]) => [name, ...all]);
}

async function nodeReader(): Promise<Reader> {
  // In order of arrival, because node:http hands out the next request while a body is still read.
  let seen: (Seen | undefined)[] = [];
  const server = createServer({ requireHostHeader: false, maxHeaderSize: 32 * 1024 });
  const take = async (request: IncomingMessage): Promise<void> => {
    const all = seen;
    const at = all.push(undefined) - 1;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    all[at] = {
      method: request.method ?? '',
      target: (request.url ?? '').replace(/^https?:\/\/[^/?#]*\/?/i, '/'),
      headers: grouped(request.rawHeaders),
      body: Buffer.concat(parts).toString('latin1'),
    };
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation'] as const)
    server.on(event, (request, response) => {
      if (event === 'checkContinue') response.writeContinue();
      void take(request).then(
        () => response.writeHead(200, { 'Content-Length': 2 }).end('ok'),
        () => {},
      );
    });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    async read(pieces, waitMs) {
      seen = [];
      await exchange(port, pieces, waitMs);
      const torn = seen.indexOf(undefined);
      return (torn < 0 ? seen : seen.slice(0, torn)) as Seen[];
    },
  };
}

const seeds = [
  'GET /b/k?x=1 HTTP/1.1\r\nHost: h\r\nX-A: b\r\n\r\n',
  'PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello',
  'PUT /b/k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc',
  'POST /b?delete HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n',
  'POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x="y z"\r\nabc\r\n0\r\nX-T: v\r\n\r\n',
  'GET http://h/b/k HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n',
  'DELETE /b/k HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n',
  'HEAD /b HTTP/1.1\r\nhost:h\r\nX-Empty:\r\nX-Blank: \t \r\nX-Wide: \xe9\xff\r\n\r\n',
];

const fragments = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  ' ',
  '\t',
  '\0',
  '\x0b',
  '\x7f',
  '\xa0',
  ':',
  ';',
  ',',
  '"',
  '\\',
  '0',
  '00',
  '-1',
  '+1',
  '0x5',
  '5',
  'A',
  ' ,',
  'Content-Length: 5\r\n',
  'Content-Length: 0\r\n',
  'content-length:5\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: identity\r\n',
  'Transfer-Encoding: chunked, chunked\r\n',
  'Transfer-Encoding : chunked\r\n',
  '\tchunked',
  ' folded\r\n',
  'Connection: close\r\n',
  'Connection: close, keep-alive\r\n',
  'Upgrade: x\r\nConnection: upgrade\r\n',
  'Host: h\r\n',
  'HTTP/1.0',
  'HTTP/1.1',
  'HTTP/2.0',
  'HTTP/0.9',
  'http/1.1',
  'GET',
  'get',
  'CONNECT',
  'SOURCE',
  'PRI',
  'M-SEARCH',
  '#f',
  '@',
  '//',
  'https://h',
  'ffffffffffffffff',
  '0\r\n\r\n',
  '1\r\na\r\n',
  'GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n',
] as const;

const rounds = Number(process.env['SLUICE_HTTP_ROUNDS'] ?? 300);

test(`of ${rounds} mutated streams of requests, node:http reads all requests that the listener reads, in the same way`, async () => {
  const { roll, pick, several } = openDice(Number(process.env['SLUICE_HTTP_SEED'] ?? 20261126));
  const [own, peer] = [await ownReader(), await nodeReader()];
  let taken = 0;
  for (let round = 0; round < rounds; round++) {
    let stream = several([1, 3], () => pick(seeds)).join('');
    for (let left = roll(4); left > 0; left--) {
      const at = roll(stream.length + 1);
      const kind = roll(4);
      if (kind === 0) stream = stream.slice(0, at) + stream.slice(at + 1 + roll(6));
      else if (kind === 1)
        stream = stream.slice(0, at) + String.fromCharCode(roll(256)) + stream.slice(at + 1);
      else stream = stream.slice(0, at) + pick(fragments) + stream.slice(at);
    }
    const bytes = Buffer.from(stream, 'latin1');
    const cuts = [0, ...several([0, 3], () => roll(bytes.length)), bytes.length].sort((a, b) => a - b);
    const pieces = cuts.slice(1).map((end, i) => bytes.subarray(cuts[i], end));
    taken += (await compare(own, peer, pieces)).length;
  }
  expect(taken).toBeGreaterThan(rounds / 4);
});

test('both read all of the requests that the mutations start from', async () => {
  const [own, peer] = [await ownReader(), await nodeReader()];
  for (const seed of seeds) {
    const pieces = [...Buffer.from(seed, 'latin1')].map((byte) => Buffer.from([byte]));
    expect(await compare(own, peer, pieces), seed).toHaveLength(1);
  }
});

/** Bodies of random sizes through the Node listener and back, over both transports, while readers on both sides are slow now and then. */
import { randomBytes, randomInt } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { Reply } from '../../src/protocol/reply.ts';
import type { Incoming } from '../../src/protocol/wire.ts';
import { serveStub } from '../support/server-stub.ts';
import * as tls from '../support/server-tls.ts';

/** Sends back what arrived, in arrays of a buffer that is used again. */
async function echo({ body }: Incoming): Promise<Reply> {
  const parts: Buffer[] = [];
  for await (const bytes of body ?? []) {
    parts.push(Buffer.from(bytes));
    if (randomInt(20) === 0) await sleep(2);
  }
  const all = Buffer.concat(parts);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    const pool = [Buffer.alloc(70_000), Buffer.alloc(70_000)];
    for (let [at, turn] = [0, 0]; at < all.length; turn++) {
      const piece = pool[turn % 2] as Buffer;
      const count = all.copy(piece, 0, at, at + randomInt(1, piece.length));
      at += count;
      yield piece.subarray(0, count);
    }
  }
  return { status: 200, headers: [['Content-Length', String(all.length)]], body: pieces() };
}

test.each(['TCP', 'TLS'])(
  'bodies of random sizes, with a length or in chunks, come back as they were sent over %s',
  async (transport) => {
    const isTls = transport === 'TLS';
    const directory = mkdtempSync(join(tmpdir(), 'sluice-echo-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const files = { SVC_TLS_CERT_FILE: join(directory, 'cert'), SVC_TLS_KEY_FILE: join(directory, 'key') };
    writeFileSync(files.SVC_TLS_CERT_FILE, tls.one.cert);
    writeFileSync(files.SVC_TLS_KEY_FILE, tls.one.key);
    const { url } = await serveStub(echo, isTls ? files : {});
    const pool = { keepAlive: true, maxSockets: 4 };
    const agent = isTls ? new HttpsAgent({ ...pool, rejectUnauthorized: false }) : new HttpAgent(pool);
    onTestFinished(() => agent.destroy());
    const send = async (body: Buffer): Promise<Buffer> => {
      const headers = randomInt(2) === 0 ? {} : { 'content-length': body.length };
      const request = (isTls ? httpsRequest : httpRequest)(url, { agent, method: 'PUT', headers });
      const answered = new Promise<IncomingMessage>((resolve, reject) => {
        request.on('response', resolve).on('error', reject);
      });
      for (let at = 0; at < body.length; ) {
        const end = at + randomInt(1, 200_000);
        request.write(body.subarray(at, end));
        at = end;
      }
      request.end();
      const parts: Buffer[] = [];
      for await (const part of await answered) {
        parts.push(part as Buffer);
        if (randomInt(10) === 0) await sleep(3);
      }
      return Buffer.concat(parts);
    };
    const client = async (): Promise<void> => {
      for (let turn = 0; turn < 6; turn++) {
        const body = randomBytes(randomInt(1, 1_500_000));
        expect((await send(body)).equals(body)).toBe(true);
      }
    };
    await Promise.all([client(), client(), client(), client()]);
  },
);

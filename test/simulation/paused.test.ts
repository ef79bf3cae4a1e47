/** A process that is paused for longer than its intents live gets its writes refused, and two collectors at the same time do no harm. */
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { completeSpec, createUpload, pathOf, uploadPart } from '../support/load-client.ts';
import { md5Hex } from '../support/load-model.ts';
import type { TestServer } from '../support/server.ts';
import { signer } from '../support/sign.ts';
import { abortUploads, createBuckets, load, newModels, newTally, verify } from './kill-load.ts';
import { fsck, inFull } from './kill-rounds.ts';
import { inTurn, layouts, type Two, two } from './two.ts';

const intentTtlMs = 1000;
/** The smallest number of writes of a load; fewer would show little. */
const writesMin = 100;
const env = {
  SVC_INTENT_TTL: `${intentTtlMs}ms`,
  SVC_GC_GRACE: '0s',
  SVC_GC_INTERVAL: '50ms',
};
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until the queues are empty, and expects that exactly the bytes that rows name are stored. */
async function expectClean({ dataDir }: Two): Promise<void> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    const { code, text, summary } = await fsck(dataDir);
    if (code === 0 && summary.leaving === 0 && summary.stored === summary.named) return;
    if (Date.now() > deadline) expect.fail(text);
    await sleep(500);
  }
}

/** A request whose body is sent in two halves: the first after `100 Continue`. */
class HalfSent {
  readonly socket: Socket;
  /** Resolves when the gateway has begun to read the body. */
  readonly begun: Promise<void>;
  readonly answer: Promise<string>;
  readonly #rest: Buffer;

  constructor(
    { url, credentials }: TestServer,
    target: { path: string; query?: Record<string, string> },
    body: Buffer,
  ) {
    const { host, port } = new URL(url);
    const signed = signer({ ...credentials.root, host }).request({
      method: 'PUT',
      ...target,
      payload: 'unsigned',
      headers: { 'content-length': String(body.length), expect: '100-continue' },
    });
    this.socket = connect(Number(port), '127.0.0.1');
    const half = body.length >> 1;
    this.#rest = body.subarray(half);
    const [begun, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    [this.begun, this.answer] = [begun.promise, answer.promise];
    this.socket.once('data', () => {
      this.socket.write(body.subarray(0, half), () => begun.resolve());
      this.socket.once('data', (bytes) => answer.resolve(bytes.toString('latin1')));
    });
    for (const end of [begun.reject, answer.reject]) {
      this.socket.on('error', end);
      this.socket.on('close', () => end(new Error('cut off')));
    }
    const head = signed.headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    this.socket.write(`PUT ${signed.target} HTTP/1.1\r\n${head}\r\n`);
  }

  async finish(): Promise<string> {
    this.socket.write(this.#rest);
    const answer = await this.answer;
    this.socket.destroy();
    return answer;
  }
}

/** Chunks that are too large to share a segment. */
const largeChunks = (dataDir: string): number =>
  readdirSync(join(dataDir, 'chunks'), { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\/large\/[^/]+\/./.test(path),
  ).length;

/** Stops a process until another one has swept the bytes of its unfinished writes. */
async function stopUntilSwept({ process }: TestServer, dataDir: string): Promise<void> {
  for (;;) {
    process.kill('SIGSTOP');
    for (let looks = 0; looks < 100; looks += 1) {
      if (largeChunks(dataDir) === 0) return;
      await sleep(100);
    }
    // The process was stopped in a transaction and holds the writers' mutex, so resume it and stop it again.
    process.kill('SIGCONT');
    await sleep(intentTtlMs);
  }
}

test('a PUT whose process was stopped past its intents is refused, and loses and leaks nothing', async () => {
  const world = await two('two servers', env);
  try {
    const [stopped] = world.servers as [TestServer, TestServer];
    await world.a.expect({ method: 'PUT', path: pathOf('bucket') });
    await world.a.expect({ method: 'PUT', path: pathOf('bucket', 'large'), body: 'former' });
    const uploadId = await createUpload(world.a, 'bucket', 'parts');
    const small = Buffer.alloc(50_000, 'small');
    const large = Buffer.alloc(10 * 1024 * 1024, 'large');
    const paused = [
      new HalfSent(stopped, { path: pathOf('bucket', 'small') }, small),
      // The first chunk is stored, and swept while the process is stopped.
      new HalfSent(stopped, { path: pathOf('bucket', 'large') }, large),
      new HalfSent(stopped, { path: pathOf('bucket', 'parts'), query: { uploadId, partNumber: '1' } }, large),
    ];
    await Promise.all(paused.map(({ begun }) => begun));
    await vi.waitFor(() => expect(largeChunks(world.dataDir)).toBe(2), { timeout: 120_000 });
    await stopUntilSwept(stopped, world.dataDir);
    // The other process serves meanwhile.
    expect((await world.b.expect({ path: pathOf('bucket', 'large') })).text).toBe('former');
    stopped.process.kill('SIGCONT');
    const answers = await Promise.all(paused.map((each) => each.finish()));
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    for (const client of [world.a, world.b]) {
      expect((await client.send({ path: pathOf('bucket', 'small') })).status).toBe(404);
      expect((await client.expect({ path: pathOf('bucket', 'large') })).text).toBe('former');
    }
    // A retry succeeds in the same process, because it is a new write with a new op.
    await world.a.expect({ method: 'PUT', path: pathOf('bucket', 'small'), body: small });
    const etag = await uploadPart(world.a, { bucket: 'bucket', key: 'parts', uploadId, part: 1 }, large);
    await world.b.expect(completeSpec({ bucket: 'bucket', key: 'parts', uploadId }, [etag]));
    expect(md5Hex((await world.b.expect({ path: pathOf('bucket', 'parts') })).body)).toBe(md5Hex(large));
    await expectClean(world);
  } finally {
    for (const server of world.servers) server.process.kill('SIGCONT');
    await world.close();
  }
});

for (const layout of layouts) {
  test(`gc and sweep in both processes do no harm under load (${layout})`, async () => {
    const world = await two(layout, env);
    try {
      const models = newModels();
      const tally = newTally();
      const client = inTurn(world.clients);
      await createBuckets(client);
      const seed = Math.floor(Math.random() * 2 ** 31);
      const stop = new AbortController();
      const loading = load(client, models, { seed, tally, signal: stop.signal });
      await Promise.race([Promise.all([sleep(4000), inFull(tally, writesMin)]), loading]);
      stop.abort();
      await loading;
      expect(await verify(client, models), `seed ${seed}`).toEqual([]);
      expect(tally.acknowledged, JSON.stringify(tally)).toBeGreaterThanOrEqual(writesMin);
      await abortUploads(client);
      await expectClean(world);
    } finally {
      await world.close();
    }
  });
}

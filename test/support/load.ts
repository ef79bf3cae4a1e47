/** Many concurrent clients, most of them slow, and the memory that a server uses for them. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { type Keys, loadClient, pathOf } from './load-client.ts';
import { type RequestSpec, signer } from './sign.ts';

export interface MemoryLoad {
  readonly url: string;
  readonly keys: Keys;
  /** The process whose memory is measured. */
  readonly pid: number;
  readonly slowUploads: number;
  readonly slowReaders: number;
  /** The number of concurrent uploads at full speed, and the size of each. */
  readonly uploads: number;
  readonly uploadBytes: number;
  /** Headers of every upload, such as those that ask for encryption. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Uploads in signed chunks of this size; their bodies are then as long as `slowBodyBytes`. */
  readonly signedChunkBytes?: number;
}

export interface MemoryTaken {
  /** The peak memory of the process (VmHWM). */
  readonly peakBytes: number;
  readonly beforeBytes: number;
  readonly seconds: number;
}

const bucket = 'memory';
/** The size of the object that slow readers read. */
const bigBytes = 64 * 1024 * 1024;
/** The announced size of a slow upload, which never sends all of it. */
const slowBytes = 64 * 1024 * 1024;
/** A slow body in signed chunks is shorter, because it is built in advance. */
const signedSlowBytes = 8 * 1024 * 1024;
/** A slow upload sends this immediately, to fill all buffers, and then a little every tick. */
const slowStartBytes = 4 * 1024 * 1024 - 100_000;
const slowStepBytes = 2 * 1024;
const tickMs = 100;
const piece = Buffer.alloc(256 * 1024, 'slice ');

/** @returns the memory of the process; throws when a client got a wrong answer */
export async function memoryUnderLoad(load: MemoryLoad): Promise<MemoryTaken> {
  const client = loadClient(load.url, load.keys, 4);
  await client.expect({ method: 'PUT', path: pathOf(bucket) }, [200, 409]);
  client.close();
  await upload(load, 'big', bigBytes);
  const beforeBytes = peakOf(load.pid);
  const startedAt = performance.now();
  const readers = await Promise.all(times(load.slowReaders, () => slowReader(load)));
  const writers = await Promise.all(times(load.slowUploads, (i) => slowUpload(load, `slow-${i}`)));
  await Promise.all(times(load.uploads, (i) => upload(load, `fast-${i}`, load.uploadBytes)));
  const seconds = (performance.now() - startedAt) / 1000;
  const peakBytes = peakOf(load.pid);
  const lost = [...readers, ...writers].filter(({ isAlive }) => !isAlive()).length;
  for (const { socket } of [...readers, ...writers]) socket.destroy();
  if (lost > 0) throw new Error(`${lost} of the slow clients were cut off`);
  return { peakBytes, beforeBytes, seconds };
}

const times = <Each>(count: number, make: (index: number) => Each): Each[] =>
  Array.from({ length: count }, (_, index) => make(index));

export function peakOf(pid: number): number {
  const [, kib = '0'] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) * 1024;
}

interface Opened {
  readonly socket: Socket;
  /** The body as framed by the signer, for uploads in signed chunks. */
  readonly framed: Uint8Array | undefined;
}

function openWith({ url, keys }: MemoryLoad, spec: RequestSpec): Opened {
  const { host, hostname, port } = new URL(url);
  const { method, target, headers, body: framed } = signer({ ...keys, host }).request(spec);
  const socket = connect(Number(port), hostname);
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.write(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`);
  return { socket, framed: spec.body === undefined ? undefined : framed };
}

function putSpec({ headers = {}, signedChunkBytes }: MemoryLoad, key: string, size: number): RequestSpec {
  const path = pathOf(bucket, key);
  if (signedChunkBytes === undefined)
    return {
      method: 'PUT',
      path,
      payload: 'unsigned',
      headers: { ...headers, 'content-length': String(size) },
    };
  const body = Buffer.alloc(size, 'slice ');
  return { method: 'PUT', path, payload: 'streaming', chunkSize: signedChunkBytes, headers, body };
}

/** Writes `size` bytes as fast as the server takes them; `poured` is called when they are all written. */
function pour({ socket, framed }: Opened, size: number, poured: () => void): void {
  let left = size;
  const more = (): void => {
    while (left > 0) {
      const count = Math.min(left, piece.length);
      const at = size - left;
      const bytes = framed === undefined ? piece.subarray(0, count) : framed.subarray(at, at + count);
      left -= count;
      if (!socket.write(bytes)) return void socket.once('drain', more);
    }
    poured();
  };
  more();
}

async function upload(load: MemoryLoad, key: string, size: number): Promise<void> {
  const opened = openWith(load, putSpec(load, key, size));
  const { socket } = opened;
  const answer = await new Promise<string>((resolve, reject) => {
    socket.setEncoding('latin1');
    socket.on('data', resolve as (text: unknown) => void);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`upload ${key} was cut off`)));
    pour(opened, opened.framed?.length ?? size, () => {});
  });
  socket.destroy();
  if (!answer.startsWith('HTTP/1.1 200')) throw new Error(`upload ${key}: ${answer.slice(0, 500)}`);
}

interface SlowClient {
  readonly socket: Socket;
  isAlive(): boolean;
}

function tap(socket: Socket): { isAlive(): boolean } {
  let alive = true;
  const end = (): void => {
    alive = false;
  };
  socket.on('error', end).on('close', end);
  return { isAlive: () => alive };
}

/** Resolves when the server has accepted the first bytes, as far as it reads them. */
async function slowUpload(load: MemoryLoad, key: string): Promise<SlowClient> {
  const size = load.signedChunkBytes === undefined ? slowBytes : signedSlowBytes;
  const opened = openWith(load, putSpec(load, key, size));
  const { socket, framed } = opened;
  const client = { socket, ...tap(socket) };
  // An answer before the end of the body is a refusal.
  socket.on('data', () => socket.destroy());
  await Promise.race([
    new Promise<void>((resolve) => pour(opened, slowStartBytes, resolve)),
    new Promise((resolve) => setTimeout(resolve, 10_000).unref()),
  ]);
  let sent = slowStartBytes;
  const timer = setInterval(() => {
    socket.write(
      (framed ?? piece).subarray(
        framed === undefined ? 0 : sent,
        (framed === undefined ? 0 : sent) + slowStepBytes,
      ),
    );
    sent += slowStepBytes;
  }, tickMs);
  socket.on('close', () => clearInterval(timer));
  return client;
}

/** Resolves with the first bytes of the answer; then reads one array every tick. */
async function slowReader(load: MemoryLoad): Promise<SlowClient> {
  const { socket } = openWith(load, { path: pathOf(bucket, 'big') });
  const client = { socket, ...tap(socket) };
  await new Promise<void>((resolve, reject) => {
    socket.once('data', (bytes: Buffer) => {
      socket.pause();
      if (bytes.toString('latin1', 0, 12) === 'HTTP/1.1 200') resolve();
      else reject(new Error(`a slow reader got ${bytes.toString('latin1', 0, 500)}`));
    });
    socket.on('error', reject);
  });
  socket.on('data', () => socket.pause());
  const timer = setInterval(() => socket.resume(), tickMs);
  socket.on('close', () => clearInterval(timer));
  return client;
}

/** Writing and reading chunks on `file`, beside the plain system calls. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileChunks } from '../../src/backends/data/file/file-chunks.ts';
import type { ChunkRef, ChunkStore } from '../../src/ports/chunk-store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { microsOf, microsOfSync, type Piece } from '../lib/micro.ts';

const owner = { bucketId: 'bucket', key: 'some/key' };
const pieceBytes = 64 * 1024;
let turn = 0;

async function* sourceOf(size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; at += pieceBytes) yield piece.subarray(0, Math.min(pieceBytes, size - at));
}
const piece = new Uint8Array(pieceBytes).fill(7);

async function readThrough(store: ChunkStore, chunk: ChunkRef): Promise<void> {
  let size = 0;
  for await (const bytes of store.read(chunk, { start: 0, end: chunk.size - 1 })) size += bytes.length;
  if (size !== chunk.size) throw new Error(`a chunk of ${chunk.size} bytes gave ${size}`);
}

function floorsOf(path: string, size: number): { readonly write: number; readonly read: number } {
  const fd = fs.openSync(path, 'w+');
  const bytes = Buffer.alloc(size, 7);
  const stretch = 64 * 1024 * 1024;
  let at = 0;
  const write = microsOfSync(() => {
    fs.writeSync(fd, bytes, 0, size, at);
    at = (at + size) % stretch;
  });
  const read = microsOfSync(() => fs.readSync(fd, bytes, 0, size, 0));
  fs.closeSync(fd);
  return { write, read };
}

export async function chunks(): Promise<Piece[]> {
  const directory = fs.mkdtempSync(join(tmpdir(), 'sluice-micro-'));
  const store = fileChunks({ directory, clock: systemClock, random: systemRandom(), durable: false });
  const pieces: Piece[] = [];
  for (const [name, size] of [['4 KiB', 4096] as const, ['4 MiB', 4 * 1024 * 1024] as const]) {
    const floors = floorsOf(join(directory, 'floor'), size);
    const batch = size > 65_536 ? 2 : 16;
    const write = (): Promise<ChunkRef> => store.write(`bench.${turn++}`, sourceOf(size), { owner, size });
    const written = await microsOf(write, { batch });
    const chunk = await write();
    const read = await microsOf(() => readThrough(store, chunk), { batch });
    pieces.push(
      { name: `chunk, write ${name}`, micros: written, floor: { name: 'pwrite', micros: floors.write } },
      { name: `chunk, read ${name}`, micros: read, floor: { name: 'pread', micros: floors.read } },
    );
  }
  await store.close();
  fs.rmSync(directory, { recursive: true, force: true });
  return pieces;
}

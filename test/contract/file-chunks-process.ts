/** A child process over a shared directory: it writes chunks and reports the acknowledged ones, or compacts. */
import fs from 'node:fs';
import { fileChunks } from '../../src/backends/data/file/file-chunks.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { listAll, owner, put } from './chunk-store.ts';

const [directory = '', task = '', name = '', count = '0'] = process.argv.slice(2);
const store = fileChunks({ directory, clock: systemClock, random: systemRandom(), durable: true });

/** Writes a line synchronously, so that the parent has it before this process does anything else. */
const say = (value: unknown): number => fs.writeSync(1, `${JSON.stringify(value)}\n`);

const sizes = [100, 4096, 70_000, 200_000, 300_000, 1_000_000];

if (task === 'write') {
  let next = 0;
  const worker = async () => {
    while (next < Number(count)) {
      const number = next++;
      say(await put(store, `${name}-${number}.0`, sizes[number % sizes.length] ?? 1));
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
} else if (task === 'small') {
  say(await put(store, `${name}.0`, 100));
} else if (task === 'large') {
  say(await put(store, `${name}.0`, 1_000_000));
} else if (task === 'half') {
  /** Stops in the middle of a large chunk, until the process is killed. */
  const half = async function* () {
    yield new Uint8Array(600_000);
    yield new Uint8Array(100_000);
    say(name);
    await new Promise((resolve) => setTimeout(resolve, 600_000));
  };
  await store.write(`${name}.0`, half(), { owner, size: 1_000_000 });
} else if (task === 'list') {
  for (const chunk of await listAll(store)) say(chunk);
} else if (task === 'compact') {
  while (await store.compact?.(new AbortController().signal));
}
await store.close();

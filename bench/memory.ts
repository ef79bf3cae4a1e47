/**
 * `node bench/memory.ts`: 200 slow uploads, 200 slow readers and 64 parallel uploads at once against one process, which
 * must stay below a ceiling. The uploads are 1 GiB each (64 GiB to hash, which takes minutes); CI runs `--size=64MiB`.
 */
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { memoryUnderLoad } from '../test/support/load.ts';
import { bench } from './lib/sign.ts';
import { targets } from './lib/targets.ts';

const mib = 2 ** 20;
const { values } = parseArgs({
  options: {
    target: { type: 'string', default: 'noop' },
    size: { type: 'string', default: '1GiB' },
    uploads: { type: 'string', default: '64' },
    slow: { type: 'string', default: '200' },
    ceiling: { type: 'string', default: '512MiB' },
    dir: { type: 'string', default: tmpdir() },
  },
});

function bytesOf(text: string): number {
  const [, digits, unit] = /^(\d+)(MiB|GiB)$/.exec(text) ?? [];
  if (digits === undefined) throw new Error(`${text} is no size such as 64MiB or 1GiB`);
  return Number(digits) * (unit === 'GiB' ? 1024 * mib : mib);
}

// A slow reader may be done before the uploads are: its connection is to stay.
process.env['SVC_IDLE_TIMEOUT'] ??= '15m';
const target = targets[values.target];
if (target === undefined) throw new Error(`--target=${values.target} is not known`);
const server = await target.start({ directory: values.dir, processes: '1' });
try {
  const { peakBytes, beforeBytes, seconds } = await memoryUnderLoad({
    url: `http://${server.host}:${server.port}`,
    keys: { accessKey: bench.accessKey, secretKey: bench.secretKey },
    pid: server.pid,
    slowUploads: Number(values.slow),
    slowReaders: Number(values.slow),
    uploads: Number(values.uploads),
    uploadBytes: bytesOf(values.size),
  });
  const [peak, before] = [peakBytes / mib, beforeBytes / mib];
  const rate = (Number(values.uploads) * bytesOf(values.size)) / mib / seconds;
  const isBelow = peakBytes < bytesOf(values.ceiling);
  process.stdout.write(
    `${values.target}: ${values.slow} slow uploads, ${values.slow} slow readers, ${values.uploads} uploads of ${values.size} in ${seconds.toFixed(0)} s (${rate.toFixed(0)} MiB/s): peak ${peak.toFixed(0)} MiB, ${before.toFixed(0)} MiB before; ceiling ${values.ceiling}: ${isBelow ? 'held' : 'EXCEEDED'}\n`,
  );
  process.exitCode = isBelow ? 0 : 1;
} finally {
  await server.stop();
}

/**
 * `node test/tidy/entered-files.ts` prints how many files of `src` one request enters: V8's precise coverage of a warm gateway in this
 * process, `embedded` and `file`, signed, on node:http. `--list` names the files too. It fails where a request enters more than its bound.
 */
import { Session } from 'node:inspector/promises';
import type { RequestSpec } from '../support/sign.ts';
import { openSignedGateway } from './signed-gateway.ts';

/** Reached, so they hold: a change that adds a file to one of these requests folds another one into the noun that it serves. */
const bounds = { PUT: 90, GET: 60, LIST: 60 } as const;
const warmUps = 30;
/** A background round that runs beside one request enters files too, so the least of a few counts. */
const samples = 5;

const { send, close } = await openSignedGateway({ workers: false });

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** The files that have run since the last call, which sets V8's counts back. */
async function takeFiles(): Promise<readonly string[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => url.includes('/src/') && !url.includes('/node_modules/'))
    .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
    .map(({ url }) => url.slice(url.indexOf('/src/') + 1))
    .sort();
}

const requests = {
  PUT: { method: 'PUT', path: '/entered/key', body: 'x'.repeat(4096) },
  GET: { path: '/entered/key' },
  LIST: { path: '/entered', query: { 'list-type': '2' } },
} as const satisfies Record<keyof typeof bounds, RequestSpec>;

await send({ method: 'PUT', path: '/entered' });
for (let round = 0; round < warmUps; round += 1) for (const spec of Object.values(requests)) await send(spec);
for (const [name, spec] of Object.entries(requests)) {
  const taken: (readonly string[])[] = [];
  for (let sample = 0; sample < samples; sample += 1) {
    await takeFiles();
    await send(spec);
    taken.push(await takeFiles());
  }
  const files = taken.toSorted((a, b) => a.length - b.length)[0] ?? [];
  const bound = bounds[name as keyof typeof bounds];
  if (files.length > bound) process.exitCode = 1;
  process.stdout.write(`${`files that one ${name} enters`.padEnd(56)}${files.length} (bound ${bound})\n`);
  const byLayer = [...Map.groupBy(files, (file) => (file.split('/')[1] ?? '').replace(/\.ts$/, ''))];
  process.stdout.write(`  ${byLayer.map(([layer, { length }]) => `${layer} ${length}`).join(', ')}\n`);
  if (process.argv.includes('--list')) process.stdout.write(files.map((file) => `  ${file}\n`).join(''));
}
session.disconnect();
await close();

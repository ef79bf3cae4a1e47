/** `npm run bench`: CPU, memory, throughput and latency of this gateway, its floors and its peers, in one run. */

import type { Case } from './lib/cases.ts';
import { type Flags, readFlags, usage } from './lib/flags.ts';
import { type Floors, measureFloors } from './lib/floors.ts';
import { Load } from './lib/load.ts';
import { measure, type Server } from './lib/measure.ts';
import { type OperationName, type OperationPlan, operations } from './lib/operations.ts';
import { caseTable, goals, matrix, type Result, table } from './lib/report.ts';
import { targets } from './lib/targets.ts';

/** The operations that a server without objects can answer. */
const bareOperations: readonly OperationName[] = [
  'put',
  'put-unsigned',
  'put-presigned',
  'put-chunked',
  'get',
  'get-presigned',
  'stat',
];

const floorOperations: readonly OperationName[] = ['put-trailer', 'get', 'multipart-trailer'];
const smallFloorOperations: readonly OperationName[] = [
  'put-trailer',
  'get',
  'stat',
  'list-100',
  'mixed-trailer',
];

/** Whether a target can run a case, and the case does not repeat another one for it. */
function isAble(target: string, { operation, size }: Case): boolean {
  const { encrypted }: OperationPlan = operations[operation];
  if (encrypted) return target.startsWith('sluice');
  // This target differs from the other one only in large bodies, which it reads from a file.
  if (target === 'bare-file') return operation === 'get' && size > 64 * 1024;
  if (target === 'floor') return size > 64 * 1024 && floorOperations.includes(operation);
  if (target === 'floor-small') return size <= 64 * 1024 && smallFloorOperations.includes(operation);
  return target !== 'bare' || bareOperations.includes(operation);
}

async function main(flags: Flags): Promise<void> {
  const floors = measureFloors(flags.directory);
  describe(flags, floors);
  const servers: Server[] = [];
  const load = new Load(flags.generators, { sleeps: flags.isMatrix });
  const results: Result[] = [];
  try {
    for (const name of flags.targets) {
      const running = await targets[name]?.start(flags);
      if (running !== undefined) servers.push({ ...running, name });
    }
    for (const each of flags.cases) {
      const able = servers.filter(({ name }) => isAble(name, each));
      if (able.length === 0) continue;
      const figures = await measure(each, able, { ...flags, load });
      results.push({ case: each, figures });
      process.stdout.write(`${caseTable(each, figures)}\n`);
    }
    process.stdout.write(flags.isMatrix ? matrix(results) : goals(results, floors));
  } finally {
    load.close();
    await Promise.all(servers.map((server) => server.stop()));
  }
}

function describe(
  { targets: names, clients, seconds, rounds, generators, processes, directory }: Flags,
  floors: Floors,
): void {
  const rows = names.map((name) => [name, targets[name]?.durability ?? '', targets[name]?.doc ?? '']);
  process.stdout.write(
    `${clients} clients from ${generators} processes, ${seconds} s for each case and target in ${rounds} alternating rounds, data in ${directory}, SVC_PROCESSES=${processes}
one core here: MD5 ${floors.md5MiBPerSecond.toFixed(0)} MiB/s, SHA-256 ${floors.sha256MiBPerSecond.toFixed(0)} MiB/s; hashing of a signature ${floors.signatureMicros.toFixed(1)} µs, of a 4 KiB body ${floors.hashSmallBodyMicros.toFixed(1)} µs; writing new files ${floors.writeMillisPerMiB.toFixed(2)} ms/MiB
"÷ x" is the CPU of an operation in relation to x's

${table(rows, 3)}\n\n`,
  );
}

const flags = readFlags(process.argv.slice(2));
if (flags === undefined) process.stdout.write(usage);
else await main(flags);

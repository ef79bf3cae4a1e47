/**
 * `node bench/regress.ts`: the CPU of requests beside that of an earlier commit, by default the last tag. Each side has one server of one
 * process; they take turns of half a second within one run, so that other load on the machine meets both. Exits with 1
 * where a ratio is above its threshold in `regress-thresholds.json`.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Case, caseOf } from './lib/cases.ts';
import { Load } from './lib/load.ts';
import { openBucket, type Server } from './lib/measure.ts';
import { isOperation, operations } from './lib/operations.ts';
import { lowerQuartile } from './lib/percentile.ts';
import { cpuMicros } from './lib/process-cost.ts';
import { table } from './lib/report.ts';
import { targets } from './lib/targets.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const thresholds = JSON.parse(
  readFileSync(new URL('./regress-thresholds.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, number>>;

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { against: text, cases: text, turns: text, seconds: text, warm: text, dir: text },
});
const against = values.against ?? lastTag();
const names = values.cases?.split(',') ?? Object.keys(thresholds);
const [turns, seconds, warmSteps] = [
  Number(values.turns ?? 20),
  Number(values.seconds ?? 0.5),
  Number(values.warm ?? 20_000),
];
const directory = values.dir ?? tmpdir();
/** Fewer clients of large bodies, as in `--matrix`. */
const clientsOf = ({ size }: Case): number => (size > 4 * 2 ** 20 ? 4 : 16);

function lastTag(): string {
  try {
    return execFileSync('git', ['describe', '--tags', '--abbrev=0'], { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    throw new Error('there is no tag yet: name a commit with --against=COMMIT');
  }
}

/** The source of a commit, with the packages of this checkout. */
function checkOut(commit: string): string {
  const checkout = mkdtempSync(join(tmpdir(), 'sluice-regress-'));
  const archive = execFileSync('git', ['archive', commit, 'src', 'package.json'], {
    cwd: root,
    maxBuffer: 2 ** 30,
  });
  execFileSync('tar', ['-x', '-C', checkout], { input: archive });
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'));
  return checkout;
}

interface Side {
  readonly server: Server;
  readonly costs: number[];
  from: number;
}

async function compare(load: Load, each: Case, servers: readonly Server[]): Promise<readonly number[]> {
  const clients = clientsOf(each);
  const sides: Side[] = servers.map((server) => ({ server, costs: [], from: 0 }));
  const run = async (side: Side, options: { readonly seconds: number; readonly turns?: number }) => {
    const result = await load.run({ ...side.server, ...each, clients, from: side.from, ...options });
    side.from += 4 * result.count + clients;
    return result;
  };
  for (const side of sides) {
    await openBucket(side.server, each);
    if (operations[each.operation].bodies === 0 || each.operation.startsWith('get'))
      await load.run({
        ...side.server,
        ...each,
        operation: 'put',
        clients,
        seconds: 60,
        turns: Math.min(each.keys, 1000),
      });
    await run(side, { seconds: 60, turns: Math.min(warmSteps, Math.ceil(2 ** 28 / each.size)) });
  }
  for (let turn = 0; turn < turns; turn++)
    for (const side of turn % 2 === 0 ? sides : sides.toReversed()) {
      const before = cpuMicros(side.server.pid);
      const { count } = await run(side, { seconds });
      side.costs.push((cpuMicros(side.server.pid) - before) / count);
    }
  return sides.map(({ costs }) => lowerQuartile(costs));
}

const checkout = checkOut(against);
const load = new Load(4, { sleeps: true });
const servers: Server[] = [];
try {
  for (const name of ['other-fsync', 'sluice-fsync'])
    servers.push({
      name,
      ...(await (targets[name] as (typeof targets)[string]).start({ directory, processes: '1', checkout })),
    });
  const rows = [['CPU, µs', against, 'here', 'ratio', 'at most']];
  for (const name of names) {
    const [operation = '', size = ''] = name.split(' ');
    if (!isOperation(operation)) throw new Error(`${name} is no case`);
    const [before, here] = await compare(load, caseOf(operation, Number(size)), servers);
    const [ratio, bound] = [(here as number) / (before as number), thresholds[name] ?? 1.1];
    const cells = [before, here].map((cost) => (cost as number).toFixed(1));
    rows.push([name, ...cells, ratio.toFixed(3), ratio > bound ? `${bound} MISSED` : String(bound)]);
    if (ratio > bound) process.exitCode = 1;
  }
  process.stdout.write(`${table(rows, 1)}\n`);
} finally {
  load.close();
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(checkout, { recursive: true, force: true });
}

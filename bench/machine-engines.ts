/**
 * `node bench/machine-engines.ts [rows] [seconds]`: what decides between lmdb and SQLite for the metadata of one machine, one engine at a
 * time: commits from several processes, many rows (10^7 by default: some twenty minutes and 5 GB), a kill, and a full disk (as root only,
 * because it mounts a small file system).
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DiskSpace } from '../src/backends/disk-space.ts';
import { systemClock } from '../src/ports/clock.ts';
import type { MetadataStore } from '../src/ports/metadata-store.ts';
import { head, headsOf, talliesOf } from '../test/contract/metadata-store/tables.ts';
import { type MachineEngine, machineEngines, openMachineStore } from '../test/support/machine-stores.ts';
import { percentile } from './lib/percentile.ts';
import { table } from './lib/report.ts';

const open = (engine: MachineEngine, directory: string): MetadataStore =>
  openMachineStore(engine, { directory, durable: true, intentTtlMs: 60_000 });
const headers = { 'content-type': 'image/jpeg' };
const photo = (key: string, size = 4096) => head('b', key, { size, headers });

/** What a small PUT commits: a head and the usage. */
async function commit(store: MetadataStore, key: string, part = 0): Promise<void> {
  const outcome = await store.commit(headsOf('b', 0), [{ put: photo(key), expect: 'absent' }], {
    then: [{ at: talliesOf('b', part), add: { className: 'c' }, by: { objects: 1, bytes: 4096 } }],
  });
  if (!outcome.applied) throw new Error('a commit was refused');
}

// A child process: commits with some writers until the parent ends it, and sends the milliseconds and keys of each.

interface Acknowledged {
  readonly key: string;
  readonly ms: number;
}

async function write(
  engine: MachineEngine,
  directory: string,
  name: string,
  writers: number,
): Promise<never> {
  const store = open(engine, directory);
  let next = 0;
  const writer = async (): Promise<never> => {
    for (;;) {
      const key = `${name}-${String(next++).padStart(9, '0')}`;
      const before = performance.now();
      await commit(store, key);
      process.send?.({ key, ms: performance.now() - before } satisfies Acknowledged);
    }
  };
  process.send?.('ready');
  await once(process, 'message');
  return Promise.race(Array.from({ length: writers }, writer));
}

async function startWriter(
  engine: MachineEngine,
  directory: string,
  { name, writers }: { readonly name: string; readonly writers: number },
): Promise<{ readonly child: ChildProcess; readonly acknowledged: Acknowledged[] }> {
  const command = [import.meta.filename, '--writer', engine, directory, name, String(writers)];
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  await once(child, 'message');
  const acknowledged: Acknowledged[] = [];
  child.on('message', (each: Acknowledged) => acknowledged.push(each));
  return { child, acknowledged };
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'close');
  child.kill('SIGKILL');
  await gone;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const inMs = (from: number): string => `${(performance.now() - from).toFixed(1)} ms`;
const rate = (count: number, from: number): string =>
  ((count / (performance.now() - from)) * 1000).toFixed(0);

type Report = (what: string, figure: string) => void;

interface Run {
  readonly engine: MachineEngine;
  readonly directory: string;
  readonly report: Report;
}

async function commitFromProcesses({ engine, directory, report }: Run, seconds: number): Promise<void> {
  for (const writers of [1, 16])
    for (const processes of [1, 2, 4]) {
      const place = join(directory, `${processes}-${writers}`);
      mkdirSync(place);
      const others = [];
      for (let index = 0; index < processes; index += 1)
        others.push(await startWriter(engine, place, { name: `p${index}`, writers }));
      const begun = performance.now();
      for (const { child } of others) child.send('begin');
      await pause(seconds * 1000);
      const each = others.map(({ acknowledged }) => acknowledged.length);
      const took = performance.now() - begun;
      for (const { child } of others) await kill(child);
      const times = others.flatMap(({ acknowledged }) => acknowledged.map(({ ms }) => ms));
      times.sort((a, b) => a - b);
      const sum = each.reduce((total, count) => total + count, 0);
      const shares = `least and most of a process ${Math.min(...each)}, ${Math.max(...each)}`;
      const slow = `p50 ${percentile(times, 0.5).toFixed(1)}, p99 ${percentile(times, 0.99).toFixed(1)} ms`;
      report(
        `commits a second, ${processes} processes with ${writers} writers each`,
        `${((sum / took) * 1000).toFixed(0)} (${slow}; ${shares})`,
      );
    }
}

const rowKey = (index: number): string => `photos/2026/${String(index).padStart(9, '0')}.jpg`;
const perFlush = 512;
const scatteredMax = 100 * perFlush;

const bytesIn = (directory: string): number =>
  readdirSync(directory).reduce((total, name) => total + statSync(join(directory, name)).size, 0);

/** Drops the pages of a directory's files from the cache of the system. */
function forgetPages(directory: string): void {
  execFileSync('sync');
  for (const name of readdirSync(directory))
    execFileSync('dd', [`if=${join(directory, name)}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' });
}

async function timed(count: number, work: () => Promise<unknown>): Promise<string> {
  const cpu = process.cpuUsage();
  const begun = performance.now();
  for (let turn = 0; turn < count; turn += 1) await work();
  const { user, system } = process.cpuUsage(cpu);
  return `${rate(count, begun)} a second, ${((user + system) / count).toFixed(0)} µs of CPU each`;
}

async function manyRows({ engine, directory, report }: Run, rows: number): Promise<void> {
  const place = join(directory, 'rows');
  mkdirSync(place);
  let store = open(engine, place);
  const insert = (keys: readonly string[]) => Promise.all(keys.map((key) => commit(store, key)));
  const cpu = process.cpuUsage();
  const begun = performance.now();
  for (let index = 0; index < rows; index += perFlush) {
    const count = Math.min(perFlush, rows - index);
    await insert(Array.from({ length: count }, (_, at) => rowKey(index + at)));
    if (Math.floor((index + count) / 1e6) > Math.floor(index / 1e6))
      process.stderr.write(`${engine}: ${index + count} rows, ${rate(index + count, begun)} a second\n`);
  }
  const { user, system } = process.cpuUsage(cpu);
  report(
    `${rows} rows inserted in order, ${perFlush} to a flush`,
    `${rate(rows, begun)} a second, ${((user + system) / rows).toFixed(0)} µs of CPU each`,
  );
  const anyKey = (): string => rowKey(Math.floor(Math.random() * rows));
  const get = async (): Promise<void> => {
    if ((await store.get(headsOf('b'), { key: anyKey(), slot: '~' })) === undefined)
      throw new Error('a row is missing');
  };
  const page = () => store.scan(headsOf('b'), { from: { key: anyKey() } }).next(1000);
  report('  point reads, cached', await timed(100_000, get));
  report('  pages of 1,000 rows, cached', await timed(500, page));
  let further = 0;
  const anyNew = (): string => `${anyKey()}.${further++}`;
  const scattered = await timed(scatteredMax / perFlush, () =>
    insert(Array.from({ length: perFlush }, anyNew)),
  );
  report(`  ${scatteredMax} further rows among them, in transactions of ${perFlush}`, scattered);
  report('  files while it is open', `${(bytesIn(place) / 1e6).toFixed(0)} MB`);
  let from = performance.now();
  await store.close();
  report('  close', inMs(from));
  report('  files', `${(bytesIn(place) / 1e6).toFixed(0)} MB`);
  forgetPages(place);
  from = performance.now();
  store = open(engine, place);
  await get();
  report('  open and first read, nothing cached', inMs(from));
  report('  point reads, nothing cached', await timed(2000, get));
  await store.close();
  const writer = await startWriter(engine, place, { name: 'killed', writers: 16 });
  writer.child.send('begin');
  await pause(3000);
  await kill(writer.child);
  from = performance.now();
  store = open(engine, place);
  await get();
  report('  open and first read after kill -9 of a writer', inMs(from));
  from = performance.now();
  let lost = 0;
  for (const { key } of writer.acknowledged)
    if ((await store.get(headsOf('b'), { key, slot: '~' })) === undefined) lost += 1;
  report('  acknowledged before the kill, lost', `${writer.acknowledged.length}, ${lost}`);
  await store.close();
  rmSync(place, { recursive: true });
}

async function repeatedKills({ engine, directory, report }: Run): Promise<void> {
  const place = join(directory, 'kills');
  mkdirSync(place);
  let acknowledged = 0;
  let lost = 0;
  let wrong = 0;
  let slowest = 0;
  for (let turn = 0; turn < 20; turn += 1) {
    const writer = await startWriter(engine, place, { name: `k${turn}`, writers: 16 });
    writer.child.send('begin');
    await pause(200 + Math.random() * 300);
    await kill(writer.child);
    const from = performance.now();
    const store = open(engine, place);
    for (const { key } of writer.acknowledged)
      if ((await store.get(headsOf('b'), { key, slot: '~' })) === undefined) lost += 1;
    slowest = Math.max(slowest, performance.now() - from);
    acknowledged += writer.acknowledged.length;
    let rows = 0;
    const cursor = store.scan(headsOf('b'));
    for (let read = await cursor.next(1000); read.length > 0; read = await cursor.next(1000))
      rows += read.length;
    // The usage is part of each commit: it counts the rows that are there.
    const tally = await store.get(talliesOf('b'), { className: 'c' });
    if ((tally?.row.objects ?? 0) !== rows) wrong += 1;
    await store.close();
  }
  report('kill -9, 20 times: acknowledged, lost, sums that are wrong', `${acknowledged}, ${lost}, ${wrong}`);
  report('  the longest opening with its reads', `${slowest.toFixed(0)} ms`);
}

const diskBytes = 64 * 1024 * 1024;

/** Above a part of the disk both refuse what is no deletion: `embedded` by the gateway's reserve, SQLite by a limit of its size. */
function openWithReserve(engine: MachineEngine, directory: string): MetadataStore {
  const space = new DiskSpace({
    component: 'metadata',
    directory,
    reserveBytes: diskBytes / 8,
    clock: systemClock,
  });
  const limits = { space, bytesMax: diskBytes / 2 };
  return openMachineStore(engine, { directory, durable: true, intentTtlMs: 60_000, limits });
}

async function onSmallDisk(
  { engine, directory, report }: Run,
  openStore: (engine: MachineEngine, directory: string) => MetadataStore,
): Promise<void> {
  const place = join(directory, 'small');
  const image = join(directory, 'image');
  mkdirSync(place, { recursive: true });
  try {
    execFileSync('truncate', ['-s', String(diskBytes), image]);
    execFileSync('mkfs.ext4', ['-q', '-F', image]);
    execFileSync('mount', ['-o', 'loop', image, place], { stdio: 'ignore' });
  } catch {
    return report('full disk', 'not measured: it needs the right to mount');
  }
  try {
    await fillDisk({ engine, directory: place, report }, openStore);
  } finally {
    execFileSync('umount', ['-l', place]);
    rmSync(image);
  }
}

const outcomeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'yes',
    (cause: Error) => `no: ${cause}: ${cause.cause}`.replace(/(: undefined)?$/, '').slice(0, 150),
  );

async function fillDisk(
  { engine, directory, report }: Run,
  openStore: (engine: MachineEngine, directory: string) => MetadataStore,
): Promise<void> {
  let store = openStore(engine, directory);
  const row = (index: number) =>
    head('b', `fill-${String(index).padStart(6, '0')}`, { manifest: new Uint8Array(8000) });
  const put = (index: number) =>
    outcomeOf(store.commit(headsOf('b'), [{ put: row(index), expect: 'absent' }]));
  let applied = 0;
  let outcome = await put(applied);
  for (; outcome === 'yes'; outcome = await put(applied)) applied += 1;
  report('full disk of 64 MiB: rows of 8 kB before it', String(applied));
  report('  a further row', outcome);
  report('  reads go on', (await store.get(headsOf('b'), row(0))) === undefined ? 'no' : 'yes');
  let removed = 0;
  let deletion = 'yes';
  for (; removed < 200; removed += 1) {
    const { revision } = (await store.get(headsOf('b'), row(removed))) ?? {};
    if (revision === undefined) throw new Error('an acknowledged row is missing');
    deletion = await outcomeOf(store.commit(headsOf('b'), [{ remove: row(removed), expect: revision }]));
    if (deletion !== 'yes') break;
  }
  report('  200 deletions', deletion === 'yes' ? 'apply' : `${removed} apply, then ${deletion}`);
  report('  a write after them', await put(1_000_000));
  await store.close();
  store = openStore(engine, directory);
  let found = 0;
  for (let index = removed; index < applied; index += 1)
    if ((await store.get(headsOf('b'), row(index))) !== undefined) found += 1;
  report('  acknowledged rows after a new start', `${found} of ${applied - removed}`);
  report('  a write after a new start', await put(1_000_001));
  await store.close();
}

const args = process.argv.slice(2);
if (args[0] === '--writer') {
  const [, engine = '', directory = '', name = '', writers = ''] = args;
  await write(engine as MachineEngine, directory, name, Number(writers));
}
const [rows = '10000000', seconds = '5'] = args;
const figures: string[][] = [];
for (const engine of machineEngines) {
  // Not under /tmp, which may be in memory.
  const directory = mkdtempSync(join(process.cwd(), '.bench-machine-'));
  const report: Report = (what, figure) => {
    figures.push([engine, what, figure]);
    process.stderr.write(`${engine}: ${what}: ${figure}\n`);
  };
  const run = { engine, directory, report };
  try {
    await commitFromProcesses(run, Number(seconds));
    await repeatedKills(run);
    await onSmallDisk(run, open);
    report('with a reserve:', '');
    await onSmallDisk(run, openWithReserve);
    await manyRows(run, Number(rows));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
process.stdout.write(`${table([['engine', 'what', 'figure'], ...figures])}\n`);

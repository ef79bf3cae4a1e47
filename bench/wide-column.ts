/**
 * `node bench/wide-column.ts`: this gateway on one node of Cassandra beside what the bare driver needs for the same
 * rows, in one run, as ratios: one request at a time, so that round trips are what is compared, or `--clients=16`. The
 * keys that are listed are seeded below the front door; `--keys=1000000`.
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { wideColumnStore } from '../src/backends/metadata/wide-column/store.ts';
import { findLiveHead } from '../src/metadata/objects/objects.ts';
import { type BucketRow, buckets, type ObjectRow, tables } from '../src/metadata/tables.ts';
import { systemClock } from '../src/ports/clock.ts';
import { systemRandom } from '../src/ports/random.ts';
import { replicatedOver, startCassandra } from '../test/support/engines/cassandra.ts';
import { byHands, type Figure } from './lib/by-hands.ts';
import { CassandraFloor } from './lib/cassandra-floor.ts';
import { Door } from './lib/door.ts';
import { Inside } from './lib/inside.ts';
import type { OperationName } from './lib/operations.ts';
import { median } from './lib/percentile.ts';

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '1000000' },
    clients: { type: 'string', default: '1' },
    part: { type: 'string', default: 'operations,writers,listing' },
    seconds: { type: 'string', default: '6' },
  },
});
const clients = Number(values.clients);
const seconds = Number(values.seconds);
const parts = values.part.split(',');
const rounds = 3;
const warmUps = 2;
const keyspace = `bench_${randomBytes(4).toString('hex')}`;
/** The limit of the read of one of 64 shards for a page of 1,000 keys (wide-column/cursor.ts). */
const sliceOfPage = 29;

const measured = (work: (n: number) => Promise<unknown>, hands = clients): Promise<Figure> =>
  byHands(work, { hands, seconds });

function say(name: string, figure: Figure, bound?: { readonly ratio: number; readonly most: number }): void {
  const goal =
    bound === undefined
      ? ''
      : `  ${bound.ratio.toFixed(2)} of at most ${bound.most}: ${bound.ratio <= bound.most ? 'reached' : 'MISSED'}`;
  const { p50, perSecond } = figure;
  process.stdout.write(`${name.padEnd(44)} p50 ${p50.toFixed(1)} ms  ${perSecond.toFixed(0)}/s${goal}\n`);
}

await using engine = await startCassandra();
const replication = replicatedOver(engine.hosts);
await using door = await Door.open({
  startMs: 240_000,
  seconds: seconds / rounds,
  rounds,
  env: {
    SVC_META_BACKEND: 'wide-column',
    SVC_WIDECOL_HOSTS: engine.hosts.join(','),
    SVC_WIDECOL_KEYSPACE: keyspace,
    SVC_WIDECOL_REPLICATION: replication,
  },
});
const floor = new CassandraFloor(engine.hosts, keyspace);
const store = await wideColumnStore({
  hosts: engine.hosts,
  localDc: 'dc1',
  keyspace,
  replication,
  tables: Object.values(tables),
  clock: systemClock,
  random: systemRandom(),
});

async function bucketOf(name: string): Promise<BucketRow> {
  await door.send('PUT', `/${name}`);
  const found = await store.get({ table: buckets, in: { name } }, {});
  if (found === undefined) throw new Error(`bucket ${name} is not there`);
  return found.row;
}

async function asked(operation: OperationName, bucket: string, count: number): Promise<Figure> {
  const { p50, perSecond } = await door.measured({ operation, bucket, clients, count });
  return { p50: p50 / 1000, perSecond };
}

/** The row of the first object of a bucket. */
async function firstIn(bucket: BucketRow): Promise<ObjectRow> {
  await door.putFirst(bucket.name);
  const head = await findLiveHead(store, bucket, 'object-00000000');
  if (head === undefined) throw new Error('what was put is not there');
  return head.row;
}

/** Measures several works in turns, so that other load on the machine affects all of them; returns medians over the rounds. */
async function inTurns<Name extends string>(
  works: Readonly<Record<Name, () => Promise<Figure>>>,
): Promise<Record<Name, Figure>> {
  const names = Object.keys(works) as Name[];
  const figures = Object.fromEntries(names.map((name) => [name, [] as Figure[]])) as Record<Name, Figure[]>;
  for (let round = 0; round < rounds; round += 1)
    for (const name of names) figures[name].push(await works[name]());
  const middle = (name: Name): Figure => ({
    p50: median(figures[name].map(({ p50 }) => p50)),
    perSecond: median(figures[name].map(({ perSecond }) => perSecond)),
  });
  return Object.fromEntries(names.map((name) => [name, middle(name)])) as Record<Name, Figure>;
}

async function operations(): Promise<void> {
  const bucket = await bucketOf('objects');
  const row = await firstIn(bucket);
  const named = (key: string): ObjectRow => ({ ...row, key });
  const insertIf = (run: string) => measured((n) => floor.insertIf(bucket, named(`${run}/${n}`)));
  const insert = (run: string) => measured((n) => floor.insert(bucket, named(`${run}/${n}`)));
  const read = (hands = clients) => measured(() => floor.read(bucket, row), hands);
  const key = '/objects/object-00000000';
  const inside = await Inside.open(door.env);
  const getInside = (hands = clients) => measured(inside.asking('GET', key), hands);
  let run = 0;
  // Warm up: the node, the gateway and this process compile the code that runs often.
  for (let i = 0; i < warmUps; i += 1) {
    for (const [operation, count] of [
      ['put', 1e8],
      ['delete', 1e8],
      ['get', 1],
      ['stat', 1],
    ] as const) {
      await firstIn(bucket);
      await door.measured({ operation, bucket: 'objects', clients: 16, count });
    }
    await measured((n) => floor.insertIf(bucket, named(`warm/${i}/${n}`)), 16);
    await read(16);
    await getInside(16);
  }
  await firstIn(bucket);
  const reads = await inTurns({
    read,
    inside: getInside,
    get: () => asked('get', 'objects', 1),
    head: () => asked('stat', 'objects', 1),
  });
  await inside[Symbol.asyncDispose]();
  const writes = await inTurns({
    insertIf: () => insertIf(`floor/${run++}`),
    insert: () => insert(`plain/${run++}`),
    put: () => asked('put', 'objects', 1e8),
    delete: () => asked('delete', 'objects', 1e8),
  });
  say('floor: conditional insert', writes.insertIf);
  say('floor: plain insert', writes.insert);
  say('floor: read', reads.read);
  const write = 2 * writes.insertIf.p50 + writes.insert.p50;
  say('PUT 4 KiB, of two conditional and one plain', writes.put, { ratio: writes.put.p50 / write, most: 1 });
  say('GET 4 KiB without HTTP, of a read', reads.inside, {
    ratio: reads.inside.p50 / reads.read.p50,
    most: 1.3,
  });
  say('GET 4 KiB, of a read', reads.get, { ratio: reads.get.p50 / reads.read.p50, most: 1.3 });
  say('HEAD, of a read', reads.head, { ratio: reads.head.p50 / reads.read.p50, most: 1.3 });
  say('DELETE, of two conditional and one plain', writes.delete, {
    ratio: writes.delete.p50 / write,
    most: 1,
  });
}

async function listing(): Promise<void> {
  const count = Number(values.keys);
  const bucket = await bucketOf('listed');
  const first = await firstIn(bucket);
  const named = (n: number): ObjectRow => ({ ...first, key: `object-${String(n).padStart(8, '0')}` });
  const started = performance.now();
  let next = 0;
  const seeding = Array.from({ length: 128 }, async () => {
    while (next < count) {
      next += 1;
      await floor.insert(bucket, named(next - 1));
    }
  });
  await Promise.all(seeding);
  process.stdout.write(`${count} keys in ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
  const start = (n: number): number => (n * 7919_000) % Math.max(1, count - 2000);
  const scans = await measured((n) => floor.page(bucket, named(start(n)), sliceOfPage), 1);
  say(`floor: ${bucket.shards} shard scans at once`, scans);
  const pages = await asked('list', 'listed', count);
  say('a page of 1,000, of those scans', pages, { ratio: pages.p50 / scans.p50, most: 2 });
}

async function spreading(): Promise<void> {
  const { one, many } = await door.writers();
  const ratio = one / many;
  process.stdout.write(
    `64 writers: one bucket ${one.toFixed(0)}/s, a bucket each ${many.toFixed(0)}/s, ${ratio.toFixed(2)} of at least 0.8: ${ratio >= 0.8 ? 'reached' : 'MISSED'}\n`,
  );
}

try {
  if (parts.includes('operations')) await operations();
  if (parts.includes('writers')) await spreading();
  if (parts.includes('listing')) await listing();
} finally {
  await store.close();
  await floor.close();
}

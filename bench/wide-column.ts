/**
 * `node bench/wide-column.ts`: this gateway on one node of Cassandra beside what the bare driver needs for the same rows (issue 5,
 * "What it must reach"), in one run, as ratios: one request at a time, so that round trips are what is
 * compared, or `--clients=16`. The keys that are listed are seeded below the front door; `--keys=1000000`.
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { wideColumnStore } from '../src/backends/metadata/wide-column/store.ts';
import { findLiveHead } from '../src/metadata/objects.ts';
import { type BucketRow, buckets, type ObjectRow, tables } from '../src/metadata/tables.ts';
import { systemClock } from '../src/ports/clock.ts';
import { systemRandom } from '../src/ports/random.ts';
import { replicatedOver, startCassandra } from '../test/support/engines/cassandra.ts';
import { CassandraFloor } from './lib/cassandra-floor.ts';
import { Door } from './lib/door.ts';
import type { OperationName } from './lib/operations.ts';

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
const keyspace = `bench_${randomBytes(4).toString('hex')}`;
/** What a shard of 64 is asked for when a page has 1,000 keys (wide-column/cursor.ts). */
const sliceOfPage = 29;

interface Figure {
  /** ms */
  readonly p50: number;
  readonly perSecond: number;
}

/** Runs `work` from so many hands at once for some seconds; each time it gets another number. */
async function measured(work: (n: number) => Promise<unknown>, hands = clients): Promise<Figure> {
  const times: number[] = [];
  let n = 0;
  const started = performance.now();
  const until = started + seconds * 1000;
  await Promise.all(
    Array.from({ length: hands }, async () => {
      while (performance.now() < until) {
        const before = performance.now();
        n += 1;
        await work(n);
        times.push(performance.now() - before);
      }
    }),
  );
  times.sort((a, b) => a - b);
  return {
    p50: times[Math.floor(times.length / 2)] ?? 0,
    perSecond: (times.length / (performance.now() - started)) * 1000,
  };
}

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

/** The first object of a bucket, as the gateway keeps it. */
async function firstIn(bucket: BucketRow): Promise<ObjectRow> {
  await door.putFirst(bucket.name);
  const head = await findLiveHead(store, bucket, 'object-00000000');
  if (head === undefined) throw new Error('what was put is not there');
  return head.row;
}

async function operations(): Promise<void> {
  const bucket = await bucketOf('objects');
  const row = await firstIn(bucket);
  const named = (key: string): ObjectRow => ({ ...row, key });
  // The node compiles what it runs often.
  for (const [operation, count] of [
    ['put', 1e8],
    ['get', 1],
    ['delete', 1e8],
  ] as const)
    await door.measured({ operation, bucket: 'objects', clients: 16, count });
  await measured((n) => floor.insertIf(bucket, named(`warm/${n}`)), 16);
  await firstIn(bucket);
  const puts = await asked('put', 'objects', 1e8);
  const gets = await asked('get', 'objects', 1);
  const heads = await asked('stat', 'objects', 1);
  const deletes = await asked('delete', 'objects', 1e8);
  const insertIf = await measured((n) => floor.insertIf(bucket, named(`floor/${n}`)));
  const insert = await measured((n) => floor.insert(bucket, named(`plain/${n}`)));
  const read = await measured(() => floor.read(bucket, named('floor/1')));
  say('floor: conditional insert', insertIf);
  say('floor: plain insert', insert);
  say('floor: read', read);
  const write = 2 * insertIf.p50 + insert.p50;
  say('PUT 4 KiB, of two conditional and one plain', puts, { ratio: puts.p50 / write, most: 1 });
  say('GET 4 KiB, of a read', gets, { ratio: gets.p50 / read.p50, most: 1.3 });
  say('HEAD, of a read', heads, { ratio: heads.p50 / read.p50, most: 1.3 });
  say('DELETE, of two conditional and one plain', deletes, { ratio: deletes.p50 / write, most: 1 });
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

/** Runs one case against several servers in turns, so that other load on the machine affects all alike. */
import type { Case } from './cases.ts';
import { Connection } from './connection.ts';
import type { Load, LoadResult } from './load.ts';
import { type OperationPlan, operations } from './operations.ts';
import { percentile } from './percentile.ts';
import { cpuSeconds, peakMiB, resetPeak } from './process-cost.ts';
import { Signer, sha256Of } from './sign.ts';
import type { Running } from './targets.ts';

export interface Server extends Running {
  readonly name: string;
}

export interface Figures {
  readonly target: string;
  readonly count: number;
  readonly cpuMicrosPerStep: number;
  readonly cpuMillisPerMiB: number;
  readonly perSecond: number;
  readonly mibPerSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly peakMiB: number;
}

export interface MeasureOptions {
  readonly load: Load;
  readonly clients: number;
  /** Seconds of measurement for each target. */
  readonly seconds: number;
  readonly rounds: number;
  /** The longest warm-up of a server. */
  readonly warmUpSeconds?: number;
}

/**
 * Steps of warm-up: a JavaScript server compiles the code that runs often, and a PUT costs twice as much in its first 15,000 steps.
 */
const warmUpSteps = 30_000;
const warmUpSecondsMax = 12;
const warmUpBytesMax = 256 * 1024 ** 2;
/** Enough for the fastest target's deletes. */
const deletesPerSecond = 12_000;

/** The measurements of one target so far. */
interface Sum {
  cpu: number;
  peak: number;
  turn: number;
  readonly results: LoadResult[];
}

export async function measure(
  each: Case,
  servers: readonly Server[],
  options: MeasureOptions,
): Promise<Figures[]> {
  const clients = Math.min(options.clients, each.clientsMax);
  return measureWith(each, servers, { ...options, clients });
}

async function measureWith(
  each: Case,
  servers: readonly Server[],
  options: MeasureOptions,
): Promise<Figures[]> {
  const { rounds, seconds } = options;
  const sums = new Map<string, Sum>();
  for (const server of servers) {
    sums.set(server.name, { cpu: 0, peak: 0, turn: 0, results: [] });
    await prepare(each, server, options);
  }
  for (let round = 0; round < rounds; round++) {
    for (const server of servers) {
      const sum = sums.get(server.name) as Sum;
      if (round === 0) await warmUp(each, server, { ...options, sum });
      await oneRound(each, server, { ...options, seconds: seconds / rounds, sum });
    }
  }
  return servers.map(({ name }) => figuresOf(name, each, sums.get(name) as Sum));
}

async function prepare(
  each: Case,
  server: Server,
  { load, clients, seconds }: MeasureOptions,
): Promise<void> {
  const { needs }: OperationPlan = operations[each.operation];
  await openBucket(server, each);
  if (needs === undefined) return;
  const turns = needs === 'once' ? Math.ceil(seconds * deletesPerSecond) : each.keys;
  await load.run({ ...server, ...each, operation: 'put', clients, seconds: 60, turns });
}

/** Creates the bucket of a case, with default encryption where the case says so. */
export async function openBucket(server: Server, { operation, bucket }: Case): Promise<void> {
  const { encrypted }: OperationPlan = operations[operation];
  await createBucket(server, bucket);
  if (encrypted) await encryptBucket(server, bucket);
}

export async function createBucket(server: Server, bucket: string): Promise<void> {
  const connection = await Connection.open(server);
  const head = new Signer(`${server.host}:${server.port}`).header({
    method: 'PUT',
    path: `/${bucket}`,
    length: 0,
  });
  const { status } = await connection.send([head]);
  connection.close();
  // 409: the bucket exists from the case before.
  if (status >= 300 && status !== 409) throw new Error(`${server.name} answered CreateBucket with ${status}`);
}

const encryption = Buffer.from(
  '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>',
);

async function encryptBucket(server: Server, bucket: string): Promise<void> {
  const connection = await Connection.open(server);
  const head = new Signer(`${server.host}:${server.port}`).header({
    method: 'PUT',
    path: `/${bucket}`,
    query: 'encryption=',
    payloadHash: sha256Of(encryption),
    length: encryption.length,
  });
  const { status, text } = await connection.send([head, encryption], { keep: true });
  connection.close();
  if (status >= 300) throw new Error(`${server.name} answered PutBucketEncryption with ${status}\n${text}`);
}

interface RoundOptions extends MeasureOptions {
  readonly sum: Sum;
}

async function warmUp(each: Case, server: Server, options: RoundOptions): Promise<void> {
  const { load, clients, sum, warmUpSeconds: seconds = warmUpSecondsMax } = options;
  // Deletes have no warm-up, because the deleted keys would be missing in the measurement.
  if (operations[each.operation].step === operations.delete.step) return;
  const turns = Math.min(warmUpSteps, Math.ceil(warmUpBytesMax / each.size));
  const warm = await load.run({ ...server, ...each, clients, seconds, turns });
  sum.turn += 4 * warm.count + clients;
}

async function oneRound(
  each: Case,
  server: Server,
  { load, clients, seconds, sum }: RoundOptions,
): Promise<void> {
  const { operation } = each;
  const turns = operation === 'delete' ? deletesPerSecond * seconds + sum.turn : Number.MAX_SAFE_INTEGER;
  resetPeak(server.pid);
  const before = cpuSeconds(server.pid);
  const result = await load.run({
    ...server,
    ...each,
    clients,
    seconds,
    turns: Math.floor(turns),
    from: sum.turn,
  });
  sum.cpu += cpuSeconds(server.pid) - before;
  sum.peak = Math.max(sum.peak, peakMiB(server.pid));
  // The generator processes advance at different speeds, so some keys in between stay unused.
  sum.turn = operation === 'delete' ? Math.floor(turns) : sum.turn + 4 * result.count + clients;
  sum.results.push(result);
}

function figuresOf(target: string, { operation }: Case, { cpu, peak, results }: Sum): Figures {
  const total = (pick: (result: LoadResult) => number): number =>
    results.reduce((sum, result) => sum + pick(result), 0);
  const [count, bytes, seconds] = [total((r) => r.count), total((r) => r.bytes), total((r) => r.seconds)];
  const latencies = results.flatMap((result) => result.latencies).toSorted((a, b) => a - b);
  const mib = bytes / 2 ** 20;
  const hasBytes = operations[operation].bodies === 1;
  return {
    target,
    count,
    cpuMicrosPerStep: (cpu / count) * 1e6,
    cpuMillisPerMiB: hasBytes ? (cpu / mib) * 1e3 : Number.NaN,
    perSecond: count / seconds,
    mibPerSecond: hasBytes ? mib / seconds : Number.NaN,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    peakMiB: peak,
  };
}

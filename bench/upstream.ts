/**
 * `node bench/upstream.ts`: an S3 service asked directly and through a gateway before it, in turns, by the same clients: 4 KiB
 * and 64 MiB, PUT and GET. Compare the ratios of throughput, and the peak of the gateway's memory.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { startCeph, startRadosgw } from '../test/support/engines/ceph.ts';
import { caseOf, sizeName, sizes } from './lib/cases.ts';
import { Load } from './lib/load.ts';
import { createBucket, measure, type Server } from './lib/measure.ts';
import { isOperation } from './lib/operations.ts';
import { caseTable } from './lib/report.ts';
import { bench } from './lib/sign.ts';
import { sluice } from './lib/targets.ts';

const { values } = parseArgs({
  options: {
    /** `radosgw`, or `sluice` for another gateway. */
    over: { type: 'string', default: 'radosgw' },
    seconds: { type: 'string', default: '6' },
    clients: { type: 'string', default: '16' },
    cases: { type: 'string', default: 'put-4KiB,get-4KiB,put-64MiB,get-64MiB' },
  },
});
const goal = 0.8;
/** Longer than usual: before a slow upstream, a gateway compiles nothing in the usual warm-up. */
const warmUpSeconds = 40;
const where = { directory: tmpdir(), processes: '1' };

interface Upstream extends Server, AsyncDisposable {}

async function startUpstream(): Promise<Upstream> {
  if (values.over === 'sluice') {
    const running = await sluice({ SVC_FSYNC: 'never' })(where);
    return { ...running, name: 'upstream', [Symbol.asyncDispose]: running.stop };
  }
  const ceph = await startCeph();
  const { endpoint } = await startRadosgw(ceph, bench);
  const run = join(dirname(ceph.conf), 'run');
  const file = readdirSync(run).find((name) => name.startsWith('client.rgw')) ?? '';
  const pid = Number(readFileSync(join(run, file), 'utf8'));
  const { hostname: host, port } = new URL(endpoint);
  const stop = async (): Promise<void> => ceph[Symbol.asyncDispose]();
  return { name: 'upstream', pid, host, port: Number(port), stop, [Symbol.asyncDispose]: stop };
}

await using upstream = await startUpstream();
const bucket = 'behind-the-gateway';
await createBucket(upstream, bucket);
const gateway = await sluice({
  SVC_FSYNC: 'never',
  SVC_DATA_BACKEND: 'upstream-store',
  SVC_UPSTREAMS: bucket,
  SVC_UPSTREAM_ENDPOINT: `http://${upstream.host}:${upstream.port}`,
  SVC_UPSTREAM_ACCESS_KEY: bench.accessKey,
  SVC_UPSTREAM_SECRET_KEY: bench.secretKey,
})(where);
const load = new Load(1, { sleeps: true });
try {
  for (const wanted of values.cases.split(',')) {
    const [operation = '', named = ''] = wanted.split('-');
    const size = sizes[named];
    if (!isOperation(operation) || size === undefined) throw new Error(`there is no case ${wanted}`);
    const usual = caseOf(operation, size, size > 4096 ? 4 : undefined);
    // The objects of the GETs are put first, on a machine that may be slow.
    const each = size > 4096 ? { ...usual, keys: 4 } : usual;
    const servers = [upstream, { ...gateway, name: 'gateway' }];
    const [clients, seconds] = [Number(values.clients), Number(values.seconds)];
    const options = { load, clients, seconds, rounds: 3, warmUpSeconds };
    const figures = await measure(each, servers, options);
    const [direct, through] = figures;
    const ratio = (through?.perSecond ?? 0) / (direct?.perSecond ?? 1);
    const said = ratio >= goal ? 'reached' : 'MISSED';
    process.stdout.write(
      `${caseTable(each, figures)}${operation} ${sizeName(size)} over ${values.over}: ${ratio.toFixed(2)} of the upstream's throughput, goal ${goal}: ${said}\n\n`,
    );
  }
} finally {
  load.close();
  await gateway.stop();
}

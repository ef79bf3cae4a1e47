/** `sluice import`: makes an index of the existing objects in an upstream bucket. */
import { printable } from '../../base/text/printable.ts';
import type { Context } from '../../context.ts';
import { lookUpBucket } from '../../domain/common/buckets.ts';
import { type ImportCounts, importBucket } from '../../domain/storage/import.ts';
import { everyReleased } from '../../metadata/background/queues.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { compose } from '../compose/compose.ts';
import type { Configuration } from '../compose/configuration.ts';
import { describeStop, stopSignal } from './stop-signal.ts';

/** Some objects changed since they were imported or could not be imported, or nothing could be done; 2 is a faulty command line. */
const leftCode = 1;
/** For a bucket with 10^7 objects half a day, with one upstream request for each object. */
const rateDefault = 200;
const rateMax = 10_000;

const flagValue = (own: readonly string[], flag: string): string | undefined =>
  own.findLast((each) => each.startsWith(`${flag}=`))?.slice(flag.length + 1);

const rateIn = (own: readonly string[]): number => Number(flagValue(own, '--rate') ?? rateDefault);

export function importFaults({ config }: Configuration, own: readonly string[]): readonly string[] {
  const rate = rateIn(own);
  const cluster = flagValue(own, '--cluster');
  const known = config.SVC_UPSTREAMS.map(({ id }) => id);
  return [
    ...(config.SVC_DATA_BACKEND === 'upstream-store'
      ? []
      : [`import is for SVC_DATA_BACKEND=upstream-store, not ${config.SVC_DATA_BACKEND}`]),
    ...(config.SVC_META_BACKEND === 'memory' ? ['import makes rows that are kept: it needs --data-dir'] : []),
    ...(flagValue(own, '--bucket') ? [] : ['import needs --bucket=<name of a bucket of the gateway>']),
    ...(cluster === undefined && known.length > 1
      ? [`there are several upstreams: --cluster= is one of ${known.join(', ')}`]
      : []),
    ...(cluster === undefined || known.includes(cluster)
      ? []
      : [`${cluster} is no upstream; there are: ${known.join(', ')}`]),
    ...(Number.isInteger(rate) && rate >= 1 && rate <= rateMax
      ? []
      : [`--rate= is a number of objects a second, from 1 to ${rateMax}`]),
  ];
}

const print = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

/** Runs beside running gateways or without one. Resolves with the exit code. */
export async function runImport({ config }: Configuration, own: readonly string[]): Promise<number> {
  const signal = stopSignal('the next run goes on from here');
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    const name = flagValue(own, '--bucket') ?? '';
    const cluster = flagValue(own, '--cluster') ?? config.SVC_UPSTREAMS[0]?.id ?? '';
    const bucket = await lookUpBucket(context, name);
    const refusal =
      bucket === undefined ? `there is no bucket ${name}` : context.bytes.foreign?.refusal(cluster);
    if (bucket === undefined || refusal !== undefined) {
      process.stderr.write(`sluice: ${refusal}\n`);
      return leftCode;
    }
    const asked = { own, bucket, signal };
    return await (own.includes('--released') ? showReleased(context, asked) : run(context, cluster, asked));
  } catch (cause) {
    if (!signal.aborted) throw cause;
    process.stderr.write(`sluice: ${describeStop(signal)}\n`);
    return leftCode;
  } finally {
    await close();
  }
}

interface Asked {
  readonly own: readonly string[];
  readonly bucket: BucketRow;
  readonly signal: AbortSignal;
}

async function run(context: Context, cluster: string, { own, bucket, signal }: Asked): Promise<number> {
  const asJson = own.includes('--json');
  const counts = await importBucket(context, {
    bucket,
    cluster,
    headers: !own.includes('--without-headers'),
    again: own.includes('--again'),
    rate: rateIn(own),
    signal,
    progress: ({ after, counts: so }) =>
      print(
        asJson
          ? JSON.stringify({ progress: { after, counts: so } })
          : printable(`${after}: ${formatCounts(so)}`),
      ),
    changed: (key) =>
      print(
        asJson
          ? JSON.stringify({ kind: 'changed', key })
          : printable(`changed upstream since its import: ${key}`),
      ),
    failed: (key, why) =>
      print(
        asJson ? JSON.stringify({ kind: 'failed', key, why }) : printable(`not imported: ${key}: ${why}`),
      ),
  });
  print(asJson ? JSON.stringify({ summary: counts }) : formatCounts(counts));
  return counts.changed + counts.failed === 0 ? 0 : leftCode;
}

const formatCounts = (counts: ImportCounts): string =>
  Object.entries(counts)
    .map(([result, count]) => `${count} ${result}`)
    .join(', ');

/** Lists upstream objects that no version names any more: the operator may delete them there. */
async function showReleased({ metadata }: Context, { own, bucket, signal }: Asked): Promise<number> {
  for await (const { key, cluster, etag } of everyReleased(metadata, bucket.id)) {
    signal.throwIfAborted();
    print(
      own.includes('--json')
        ? JSON.stringify({ cluster, key, etag })
        : printable(`${cluster}  ${etag}  ${key}`),
    );
  }
  return 0;
}

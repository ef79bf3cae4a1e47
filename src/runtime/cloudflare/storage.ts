/** The storage of a gateway in a Worker: metadata in the Durable Object `SluiceMetadata`, bytes in R2 (docs/workers.md). */

import type { R2Bucket } from '../../backends/data/r2.ts';
import type { RemoteRecords } from '../../backends/metadata/records/remote.ts';
import type { SendToShard } from '../../backends/metadata/records/shard-calls.ts';
import type { Bindings } from '../../backends/sinks/fetch-sinks.ts';
import { changeConfig } from '../../config/read-config.ts';
import type { Config } from '../../config.ts';
import type { Storage } from '../../gateway-opener.ts';
import {
  type ContextParts,
  openContext,
  openPortable,
  type PortableOptions,
} from '../../portable-context.ts';
import { type Clock, systemClock, workerdClock } from '../../ports/clock.ts';
import { isRowFailure, type LateWrites, type MetadataStore, type Op } from '../../ports/metadata-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import {
  type CloudflareBindings,
  durableRecords,
  intentTtlMs,
  type MetadataNamespace,
  openCryptography,
  openR2,
  openSinks,
  readMasterKey,
  readShards,
  shardObject,
  workerSettings,
} from './bindings.ts';

/** The runtime's own module. Elsewhere, for example in a test or a build, nothing has to be kept alive. */
const { waitUntil } = await import('cloudflare:workers').catch(() => ({ waitUntil() {} }));

/** Longer than a runtime keeps a request alive after its reply. */
const outlivingMs = 25_000;

/**
 * A timer ends with the request that set it, and a wait that several requests share would never end: so each timer keeps its request
 * alive.
 */
const requestClock: Clock = {
  ...workerdClock,
  sleep(ms, signal) {
    const slept = systemClock.sleep(ms, signal);
    if (ms <= outlivingMs) waitUntil(slept);
    return slept;
  },
};

/** Traffic that is written after a longer time would be lost with the timer. */
const writtenInTime = (config: Config): Config =>
  changeConfig(config, {
    SVC_USAGE_TRAFFIC_INTERVAL: Math.min(config.SVC_USAGE_TRAFFIC_INTERVAL, outlivingMs),
  });

/** Nothing may wait in an isolate, because it ends without notice: rows are written while their request is kept alive. */
const writeAtOnce = (metadata: MetadataStore, telemetry: Telemetry): LateWrites => ({
  async add(change) {
    waitUntil(
      metadata.apply([change]).catch((cause: unknown) => {
        telemetry.count('svc_late_rows_lost_total', { why: isRowFailure(cause) ? 'row' : 'store' });
        telemetry.log('WARN', 'a row that is written late was lost', { cause });
      }),
    );
  },
  async flush() {},
});

/** Renews the intents of this isolate for as long as one of its requests has an open op. */
function renewing(records: RemoteRecords): RemoteRecords {
  const timers = new Map<string, ReturnType<typeof setInterval>>();
  const begin = async (intent: { readonly cluster: string }): Promise<Op> => {
    const op = await records.begin(intent);
    const renew = (): void => void records.maintain().catch(() => undefined);
    timers.set(op.id, setInterval(renew, intentTtlMs / 3));
    return op;
  };
  const stop = (opId: string): void => {
    clearInterval(timers.get(opId));
    timers.delete(opId);
  };
  const end = (op: Op): Promise<void> => {
    stop(op.id);
    return records.end(op);
  };
  const abort = (opId: string): Promise<void> => {
    stop(opId);
    return records.abort(opId);
  };
  return new Proxy(records, {
    get(target, name) {
      if (name === 'begin') return begin;
      if (name === 'end') return end;
      if (name === 'abort') return abort;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/**
 * The metadata port over a binding. A stub belongs to the request that made it, so each call makes one. A call ends
 * with its request too, and work that goes on after the reply may hold a mutex meanwhile, which would never be
 * released: so each call keeps its request alive.
 */
function durableMetadata(namespace: MetadataNamespace, count: number, clock: Clock): RemoteRecords {
  const send: SendToShard = (shard, name, args, version) => {
    const calling = shardObject(namespace, shard).call(name, args, { number: shard, count, version });
    waitUntil(calling.catch(() => undefined));
    return calling;
  };
  return durableRecords(send, count, { clock });
}

export interface CloudflareOptions {
  /** A binding of an R2 bucket. */
  readonly objects: R2Bucket;
  /** A binding of the class `SluiceMetadata`. */
  readonly metadata: MetadataNamespace;
  /** 32 random bytes as base64, the same for ever: seals the secrets of users and sessions. */
  readonly masterKey: string;
  /** The bindings of queues that targets of type `queue` name: the `env` of the Worker, for example. */
  readonly queues?: Bindings;
  /**
   * How many objects the metadata are in at first. It cannot be changed once there are some; each object splits when it
   * is large. Default 1.
   */
  readonly shards?: number;
}

function openContextParts(
  { objects, metadata, masterKey, queues = {}, shards }: CloudflareOptions,
  { config, telemetry }: { readonly config: Config; readonly telemetry: Telemetry },
): ContextParts {
  const cryptography = openCryptography();
  const count = readShards(shards);
  // A bucket of one shard is in one object, and its rows could not move when it gets more, or when the object splits.
  if (config.SVC_BUCKET_SHARDS < 2)
    throw new Error(
      'SVC_BUCKET_SHARDS=1 keeps a bucket in one Durable Object; it is at least 2 here, and 64 by default',
    );
  const records = renewing(durableMetadata(metadata, count, requestClock));
  return {
    ...cryptography,
    telemetry,
    clock: requestClock,
    metadata: records,
    bytes: openR2(objects, requestClock),
    lateWrites: writeAtOnce(records, telemetry),
    sinks: openSinks(config, { ...cryptography, clock: requestClock, bindings: queues }),
    masterKeys: [readMasterKey(masterKey)],
  };
}

/** Metadata in a Durable Object, bytes in R2. The workers run beside the metadata, by alarms. */
export const cloudflare = (options: CloudflareOptions): Storage => ({
  settings: workerSettings,
  runsWorkers: true,
  open: async (config, { telemetry }) =>
    openContext(writtenInTime(config), openContextParts(options, { config, telemetry })),
});

/** A gateway's context over the bindings of the default entry. */
export const openCloudflare = (
  config: Config,
  bindings: CloudflareBindings,
  { telemetry, tracer }: Required<Pick<ContextParts, 'telemetry' | 'tracer'>>,
) => {
  const { BUCKET: objects, SLUICE: metadata, SLUICE_MASTER_KEY: masterKey } = bindings;
  const shards = readShards(bindings.SLUICE_SHARDS);
  // The cast: bindings have any name.
  const queues = bindings as object as Bindings;
  const parts = openContextParts({ objects, metadata, masterKey, queues, shards }, { config, telemetry });
  return openContext(writtenInTime(config), { ...parts, tracer });
};

/** Everything in the memory of this isolate, for trials. */
export const openInMemory = (config: Config, options: PortableOptions) =>
  openPortable(writtenInTime(config), { ...options, clock: requestClock });

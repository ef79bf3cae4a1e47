/** What a Worker and its Durable Object share: the bindings, the settings, the bytes in R2, and the hashes of the runtime. */

import { crc32c } from '../../backends/crypto/crc.ts';
import { nativeHasher } from '../../backends/crypto/native-hasher.ts';
import { portableCipher } from '../../backends/crypto/subtle-cipher.ts';
import { chunked } from '../../backends/data/chunked/chunked.ts';
import { type R2Bucket, r2Chunks } from '../../backends/data/r2.ts';
import { WriteBudget } from '../../backends/data/write-budget.ts';
import type { ShardPlace } from '../../backends/metadata/records/placement.ts';
import { type RemoteRecords, remoteRecords } from '../../backends/metadata/records/remote.ts';
import { type SendToShard, shardCalls } from '../../backends/metadata/records/shard-calls.ts';
import { type Bindings, explainUnsupported, fetchSinks } from '../../backends/sinks/fetch-sinks.ts';
import { fromBase64 } from '../../base/text/base64.ts';
import { mayReach } from '../../config/network.ts';
import { toSettingText } from '../../config/read-config.ts';
import type { Config, Environment } from '../../config.ts';
import { tables } from '../../metadata/tables.ts';
import type { ContextParts } from '../../portable-context.ts';
import type { Clock } from '../../ports/clock.ts';
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import type { EventSinks } from '../../ports/event-sink.ts';
import type { AnyTable } from '../../ports/metadata-store.ts';
import type { ObjectBytes } from '../../ports/object-bytes.ts';
import { systemRandom } from '../../ports/random.ts';

/** A binding of the class `SluiceMetadata`. */
export interface MetadataNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): unknown;
}

/** The object that a caller means, and the version of the placement by which it was chosen. */
export interface CallPlace extends ShardPlace {
  readonly version?: number;
}

/** How the object of a shard is reached. */
export interface MetadataStub {
  call(name: string, args: readonly unknown[], place?: CallPlace): Promise<unknown>;
  /** Takes the place, or is refused. */
  join(place: ShardPlace): Promise<void>;
}

/** The object of a shard. That of the first is the only one where there are no shards. A stub belongs to the request that made it. */
export const shardObject = (namespace: MetadataNamespace, shard: number): MetadataStub =>
  // The cast: the stub has the methods of its class.
  namespace.get(namespace.idFromName(shard === 0 ? 'metadata' : `metadata-${shard}`)) as MetadataStub;

/** The largest number of shards that a gateway can begin with; splits add more. */
const shardsMax = 32;

/** The number of shards; absent means that there are none, as 1 does. */
export function readShards(input: unknown): number {
  const count = input === undefined || input === '' ? 1 : Number(input);
  if (!Number.isInteger(count) || count < 1 || count > shardsMax)
    throw new Error(`SLUICE_SHARDS=${input} is not a whole number from 1 to ${shardsMax}`);
  return count;
}

export interface CloudflareBindings {
  readonly BUCKET: R2Bucket;
  readonly SLUICE: MetadataNamespace;
  /** 32 random bytes as base64 (`openssl rand -base64 32`), a secret: seals the secrets of users and sessions. */
  readonly SLUICE_MASTER_KEY: string;
  /** How often the workers run, in seconds. Default 60. */
  readonly SLUICE_WORKERS_EVERY?: string | number;
  /**
   * How many objects the metadata are in at first. It cannot change after the first write; each object splits when it
   * is large. Default 1.
   */
  readonly SLUICE_SHARDS?: string | number;
}

/** Longer than a request takes between two renewals; a Worker cannot renew between its requests. */
export const intentTtlMs = 5 * 60_000;
/** Memory of the chunks in flight in an isolate, which has 128 MB in total. */
const writeBytesMax = 24 * 1024 * 1024;
/** The memory of an isolate, for the bounds that a gateway derives from it. */
export const isolateMemory = { SVC_MEMORY_MAX: '128MiB' } as const;

/** The settings of a gateway in a Worker, unless it has its own. */
export const workerSettings = {
  SVC_META_BACKEND: 'memory',
  SVC_DATA_BACKEND: 'memory',
  ...isolateMemory,
} as const;

/** The bindings that are settings, as texts: wrangler binds a variable of TOML as a number, a boolean or JSON too. */
export const settingTexts = (bindings: object): Environment =>
  Object.fromEntries(
    Object.entries(bindings)
      .filter(([name, value]) => name.startsWith('SVC_') && value !== undefined && value !== null)
      .map(([name, value]) => [name, toSettingText(value)]),
  );

/** Seconds from one alarm to the next. */
const workersEverySeconds = 60;
const workersEverySecondsMax = 86_400;

/** SLUICE_WORKERS_EVERY. @returns a fault beside the default: an object that cannot set its alarm would answer no call. */
export function readWorkersEvery(input: unknown = workersEverySeconds): {
  readonly ms: number;
  readonly fault?: string;
} {
  const seconds = input === '' ? workersEverySeconds : Number(input);
  if (seconds >= 0 && seconds <= workersEverySecondsMax) return { ms: Math.max(1, seconds) * 1_000 };
  return {
    ms: workersEverySeconds * 1_000,
    fault: `SLUICE_WORKERS_EVERY=${input} is not a number of seconds up to ${workersEverySecondsMax}: ${workersEverySeconds} is used`,
  };
}

export function readMasterKey(text: unknown): Uint8Array {
  let key: Uint8Array = new Uint8Array(0);
  try {
    key = fromBase64(String(text));
  } catch {
    // An empty key fails the check of the length below.
  }
  if (key.length !== cipherKeyBytes)
    throw new Error(`SLUICE_MASTER_KEY is not ${cipherKeyBytes} bytes as base64: openssl rand -base64 32`);
  return key;
}

/** The metadata port over calls to the objects. */
export function durableRecords(
  send: SendToShard,
  count: number,
  {
    clock,
    tables: known = Object.values(tables),
  }: { readonly clock: Clock; readonly tables?: readonly AnyTable[] },
): RemoteRecords {
  // Also with one object, because it may split.
  const options = { clock, random: systemRandom(), intentTtlMs, isSharded: true };
  return remoteRecords(shardCalls(send, { count, tables: known, intentTtlMs, clock }), options);
}

export const openR2 = (bucket: R2Bucket, clock: Clock): ObjectBytes =>
  chunked({ default: r2Chunks(bucket) }, new WriteBudget(writeBytesMax, clock));

export interface SinkParts extends Pick<ContextParts, 'hasher' | 'clock'> {
  /** Targets of type `queue` name some of them. */
  readonly bindings: Bindings;
}

/** The targets that Workers can deliver to. */
export function openSinks(config: Config, { hasher, clock, bindings }: SinkParts): EventSinks {
  const targets = config.SVC_NOTIFY_TARGETS;
  const faults = targets.flatMap((target) => explainUnsupported(target, bindings) ?? []);
  if (faults.length > 0) throw new Error(`SVC_NOTIFY_TARGETS: ${faults.join('; ')}`);
  return fetchSinks(targets, {
    mayReach: (address) => mayReach(address, config.SVC_EGRESS_ALLOW),
    hasher,
    clock,
    bindings,
    timeoutMs: config.SVC_NOTIFY_TIMEOUT,
  });
}

/** Of the runtime: MD5 and SHA-256 of a body in JavaScript take ten times the CPU. */
export const openCryptography = (): Pick<ContextParts, 'hasher' | 'cipher'> => ({
  hasher: nativeHasher({ crc32c }),
  cipher: portableCipher(),
});

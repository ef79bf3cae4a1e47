/** What a Worker and its Durable Object share: the bindings, the settings, the bytes in R2, and the hashes of the runtime. */

import { crc32c } from '../../backends/crypto/crc.ts';
import { nativeHasher } from '../../backends/crypto/native-hasher.ts';
import { portableCipher } from '../../backends/crypto/subtle-cipher.ts';
import { chunked } from '../../backends/data/chunked/chunked.ts';
import { type R2Bucket, r2Chunks } from '../../backends/data/r2.ts';
import { WriteBudget } from '../../backends/data/write-budget.ts';
import { type Bindings, explainUnsupported, fetchSinks } from '../../backends/sinks/fetch-sinks.ts';
import { fromBase64 } from '../../base/text/base64.ts';
import { mayReach } from '../../config/network.ts';
import type { Config } from '../../config.ts';
import type { ContextParts } from '../../portable-context.ts';
import type { Clock } from '../../ports/clock.ts';
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import type { EventSinks } from '../../ports/event-sink.ts';
import type { ObjectBytes } from '../../ports/object-bytes.ts';

/** A binding of the class `SluiceMetadata`. */
export interface MetadataNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): unknown;
}

export interface CloudflareBindings {
  readonly BUCKET: R2Bucket;
  readonly SLUICE: MetadataNamespace;
  /** 32 random bytes as base64 (`openssl rand -base64 32`), a secret: seals the secrets of users and sessions. */
  readonly SLUICE_MASTER_KEY: string;
  /** How often the workers run, in seconds. Default 60. */
  readonly SLUICE_WORKERS_EVERY?: string;
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

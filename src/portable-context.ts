/** A context of parts that run on every runtime: everything in memory, unless an application brings stores of its own. */
import { openCredentials } from './auth/session/credentials.ts';
import { portableCipher, portableHasher } from './backends/crypto/portable.ts';
import { chunked } from './backends/data/chunked/chunked.ts';
import { memoryChunks } from './backends/data/memory.ts';
import { masterSealer } from './backends/keys/sealing.ts';
import { lateWrites } from './backends/metadata/late-writes.ts';
import { memoryStore } from './backends/metadata/memory-store.ts';
import { Caches } from './base/bounded-cache.ts';
import { SharedMemory } from './base/shared-budget.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { openClusterStates } from './domain/clusters/cluster-states.ts';
import { TrafficCounter } from './domain/usage/traffic-counter.ts';
import { type Clock, systemClock } from './ports/clock.ts';
import { type Cipher, cipherKeyBytes, type Hasher } from './ports/cryptography.ts';
import type { EventSinks } from './ports/event-sink.ts';
import type { LateWrites, MetadataStore } from './ports/metadata-store.ts';
import type { ObjectBytes } from './ports/object-bytes.ts';
import { systemRandom } from './ports/random.ts';
import { noSiblings } from './ports/siblings.ts';
import { silentTelemetry, type Telemetry } from './ports/telemetry.ts';
import type { Tracer } from './ports/trace.ts';

/** What a context is made of. */
export interface ContextParts {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly tracer?: Tracer | undefined;
  readonly hasher: Hasher;
  readonly cipher: Cipher;
  readonly metadata: MetadataStore;
  readonly bytes: ObjectBytes;
  /** Default: gathers rows in this process, and writes them within a second. */
  readonly lateWrites?: LateWrites | undefined;
  /** The targets of bucket notifications. Absent: no event is delivered. */
  readonly sinks?: EventSinks | undefined;
  /** Seals what is stored; the first seals, all unseal. Default: a random one, with which sealed values last as long as this process. */
  readonly masterKeys?: readonly Uint8Array[] | undefined;
}

export type PortableOptions = Partial<ContextParts>;

/** Everything in memory, and hashes in JavaScript, unless the options have something else. */
export function openPortable(config: Config, options: PortableOptions = {}): OpenedParts {
  const { clock = systemClock, telemetry = silentTelemetry } = options;
  return openContext(config, {
    ...options,
    clock,
    telemetry,
    hasher: options.hasher ?? portableHasher(),
    cipher: options.cipher ?? portableCipher(),
    metadata: options.metadata ?? memoryStore({ clock, random: systemRandom() }),
    bytes: options.bytes ?? chunked({ default: memoryChunks() }),
  });
}

export interface OpenedParts {
  readonly context: Context;
  close(): Promise<void>;
}

export function openContext(config: Config, parts: ContextParts): OpenedParts {
  const { clock, telemetry, tracer, hasher, cipher, metadata, bytes, sinks } = parts;
  const random = systemRandom();
  const keys = parts.masterKeys ?? [random.bytes(cipherKeyBytes)];
  const sealer = masterSealer({ keys, cipher, hasher, random });
  const late = parts.lateWrites ?? lateWrites({ metadata, clock, telemetry });
  const identities = { metadata, sealer, clock, lateWrites: late, cacheTtlMs: 0 };
  const context: Context = {
    config,
    metadata,
    lateWrites: late,
    bytes,
    clusterStates: openClusterStates({ metadata, bytes, clock, telemetry, siblings: noSiblings }),
    bodyMemory: new SharedMemory(config.SVC_MEMORY_MAX / 8),
    caches: new Caches(),
    siblings: noSiblings,
    clock,
    random,
    hasher,
    cipher,
    credentials: openCredentials(identities, config.SVC_CREDENTIALS ?? []),
    sealer,
    telemetry,
    ...(tracer === undefined ? {} : { tracer }),
    ...(sinks === undefined ? {} : { sinks }),
  };
  const close = async (): Promise<void> => {
    await context.caches.of(TrafficCounter).close(context);
    await late.flush();
    await Promise.all([sinks?.close(), metadata.close(), bytes.close()]);
  };
  return { context, close };
}

/** The library's face: the gateway, its ports, and the backends that run anywhere (design §2). */

export { openCredentials, staticCredentials } from './auth/credentials.ts';
export { portableCipher } from './backends/ciphering/portable.ts';
export { bodyBudget } from './backends/data/body-budget.ts';
export { chunked } from './backends/data/chunked.ts';
export { memoryChunks } from './backends/data/memory.ts';
export { portableHasher } from './backends/hashing/portable.ts';
export { masterSealer } from './backends/keys/master-sealer.ts';
export { lateWrites } from './backends/metadata/late-writes.ts';
export { memoryStore } from './backends/metadata/memory/store.ts';
export { type Config, parseConfig } from './config.ts';
export type { Context } from './context.ts';
export { openClusterStates } from './domain/clusters/cluster-states.ts';
export { createGateway, type Gateway, type GatewayOptions } from './gateway.ts';
export type { BodyMemory } from './ports/body-memory.ts';
export type { ChunkStore } from './ports/chunk-store.ts';
export { type Cipher, cipherKeyBytes } from './ports/cipher.ts';
export { type Clock, systemClock } from './ports/clock.ts';
export type { ClusterStates } from './ports/cluster-states.ts';
export type { Credential, Credentials } from './ports/credentials.ts';
export type { Hasher } from './ports/hasher.ts';
export type { LateWrites } from './ports/late-writes.ts';
export type { MetadataStore } from './ports/metadata-store.ts';
export type { ObjectBytes } from './ports/object-bytes.ts';
export { type Random, systemRandom } from './ports/random.ts';
export type { Sealer } from './ports/sealer.ts';
export { silentTelemetry, type Telemetry } from './ports/telemetry.ts';
export { startWorkers } from './workers/registry.ts';

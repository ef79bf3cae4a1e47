/** The library's face: the gateway, its ports, and the backends that run anywhere. */

// First, because other modules stop an old runtime with a stack trace.
import './base/assert-runtime.ts';

export {
  type BunServer,
  bunHandler,
  denoHandler,
  type HonoContext,
  honoHandler,
  workerHandler,
} from './adapters.ts';
export { createGateway } from './admin-gateway.ts';
export { openCredentials, staticCredentials } from './auth/session/credentials.ts';
export { portableCipher, portableHasher } from './backends/crypto/portable.ts';
export { chunked } from './backends/data/chunked/chunked.ts';
export { memoryChunks } from './backends/data/memory.ts';
export { masterSealer } from './backends/keys/sealing.ts';
export { lateWrites } from './backends/metadata/late-writes.ts';
export { memoryStore } from './backends/metadata/memory-store.ts';
export { Caches } from './base/bounded-cache.ts';
export { SharedMemory } from './base/shared-budget.ts';
export { parseConfig } from './config/read-config.ts';
export type { Config } from './config.ts';
export type { Context } from './context.ts';
export { openClusterStates } from './domain/clusters/cluster-states.ts';
export type { Gateway, GatewayOptions } from './gateway.ts';
export type {
  AccessKey,
  CustomStorage,
  Mounted,
  OpenedContext,
  OpenGateway,
  OpeningOptions,
  OpenOptions,
  PresignedPost,
  PresignOptions,
  PresignPostOptions,
  Storage,
} from './gateway-opener.ts';
export { directory, memory, openGateway, type S3Storage, s3 } from './open-gateway.ts';
export type {
  ApplicationRequest,
  ApplicationSession,
  Authorize,
  AuthorizeAnswer,
  AuthorizeFacts,
  EventDelivery,
  ObjectEvent,
  OnEvent,
} from './ports/application.ts';
export type { ChunkStore } from './ports/chunk-store.ts';
export { type Clock, systemClock } from './ports/clock.ts';
export type { ConsoleAsset, ConsoleAssets } from './ports/console-assets.ts';
export type { Credential, Credentials } from './ports/credentials.ts';
export type { Hasher, Sealer } from './ports/cryptography.ts';
export { type Cipher, cipherKeyBytes } from './ports/cryptography.ts';
export type { LateWrites, MetadataStore } from './ports/metadata-store.ts';
export type { ClusterStates, ObjectBytes } from './ports/object-bytes.ts';
export { type Random, systemRandom } from './ports/random.ts';
export { noSiblings, type Siblings } from './ports/siblings.ts';
export { silentTelemetry, type Telemetry } from './ports/telemetry.ts';
export type { FetchFacts } from './protocol/fetch.ts';
export type { Reply } from './protocol/reply.ts';
export type { Incoming, Wire, WireHeaders } from './protocol/wire.ts';
export type { SettingOptions } from './setting-options.ts';
export { startWorkers } from './workers/registry.ts';

/** Everything injected: what the service is built on, named once. Functions take the slice that they touch. */

import type { Caches } from './base/bounded-cache.ts';
import type { SharedMemory } from './base/shared-budget.ts';
import type { Config } from './config.ts';
import type { Application } from './ports/application.ts';
import type { StorageSpace } from './ports/chunk-store.ts';
import type { Clock, SigningClock } from './ports/clock.ts';
import type { ConsoleAssets } from './ports/console-assets.ts';
import type { Credentials } from './ports/credentials.ts';
import type { Cipher, Hasher, Sealer } from './ports/cryptography.ts';
import type { Diagnostics } from './ports/diagnostics.ts';
import type { EventSinks } from './ports/event-sink.ts';
import type { KeyProvider } from './ports/key-provider.ts';
import type { LateWrites, MetadataStore } from './ports/metadata-store.ts';
import type { ClusterStates, ObjectBytes } from './ports/object-bytes.ts';
import type { OtherNodes } from './ports/other-nodes.ts';
import type { PeerRequests } from './ports/peer-requests.ts';
import type { Random } from './ports/random.ts';
import type { Siblings } from './ports/siblings.ts';
import type { LogLevelControl, Telemetry } from './ports/telemetry.ts';
import type { Trace, Tracer } from './ports/trace.ts';

export interface Context {
  readonly config: Config;
  readonly caches: Caches;
  readonly metadata: MetadataStore;
  readonly lateWrites: LateWrites;
  readonly bytes: ObjectBytes;
  readonly clusterStates: ClusterStates;
  /** Of bodies that are read whole. */
  readonly bodyMemory: Pick<SharedMemory, 'take' | 'give'>;
  /** The other processes of this node. */
  readonly siblings: Siblings;
  /** Absent where the metadata are on this machine: then there is one node. */
  readonly otherNodes?: OtherNodes;
  readonly clock: Clock;
  /** Absent where clients keep the time of `clock`. */
  readonly signingClock?: SigningClock;
  readonly random: Random;
  readonly hasher: Hasher;
  readonly cipher: Cipher;
  readonly credentials: Credentials;
  readonly sealer: Sealer;
  /** The targets of bucket notifications; absent where no worker delivers to them. */
  readonly sinks?: EventSinks;
  /** Absent where none is configured. */
  readonly keys?: KeyProvider;
  /** Absent where no disk space is measured. */
  readonly diskSpace?: StorageSpace;
  /** Absent in runtimes that open no connections of their own. */
  readonly peers?: PeerRequests;
  /** Absent where no console is served. */
  readonly consoleAssets?: ConsoleAssets;
  /** Absent where no application embeds the gateway, or has no hooks. */
  readonly application?: Application;
  /** Absent where a process tells nothing about itself. */
  readonly diagnostics?: Diagnostics;
  readonly telemetry: Telemetry;
  /** Absent where an embedding application owns the log. */
  readonly logLevel?: LogLevelControl;
  /** Absent where nothing is traced. */
  readonly tracer?: Tracer;
  /** Of the request that this context is a view for. */
  readonly trace?: Trace;
  /** The version of this build; absent where it is not known. */
  readonly version?: string;
}

/**
 * The whole gateway over memory stores on a virtual clock, in any number of simulated processes. Each of them can be killed at any call
 * of a port, down to single chunks and single reads of a scan. An oracle reads every row without the domain's code.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { createGateway } from '../../src/admin-gateway.ts';
import { staticCredentials } from '../../src/auth/session/credentials.ts';
import { nodeCipher, nodeHasher } from '../../src/backends/crypto/node.ts';
import { chunked } from '../../src/backends/data/chunked/chunked.ts';
import { memoryChunks } from '../../src/backends/data/memory.ts';
import { masterSealer } from '../../src/backends/keys/sealing.ts';
import { lateWrites } from '../../src/backends/metadata/late-writes.ts';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { SharedMemory } from '../../src/base/shared-budget.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { SettingName } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { openClusterStates } from '../../src/domain/clusters/cluster-states.ts';
import { runFsck } from '../../src/domain/fsck/fsck.ts';
import { sweep } from '../../src/domain/storage/sweep.ts';
import { backlog } from '../../src/metadata/background/queues.ts';
import { manifests, objects, uploads } from '../../src/metadata/tables.ts';
import type { ChunkStore } from '../../src/ports/chunk-store.ts';
import { cipherKeyBytes } from '../../src/ports/cryptography.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import type { Extent, ObjectBytes } from '../../src/ports/object-bytes.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { noSiblings } from '../../src/ports/siblings.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { type Kill, storedExtents } from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';
import { type RequestSpec, signer, toRequest } from '../support/sign.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const defaultIntentTtlMs = 60_000;
const graceMs = 10 * 60_000;
/** A bucket that a dead DeleteBucket left closed opens again after half a minute. */
const reopenedMs = 31_000;
/** The largest number of shards of a bucket in these tests. */
const shardsMax = 8;
const forever = new Promise<never>(() => {});
const never = new AbortController().signal;
const keys = { accessKey: 'KEY', secretKey: 'secret' };

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export type FrontDoor = ReturnType<typeof frontDoor>;
export type Process = ReturnType<FrontDoor['process']>;

/** Another metadata store than memory, on the same virtual clock. */
export interface Kept {
  readonly clock: VirtualClock;
  readonly metadata: MetadataStore;
  readonly intentTtlMs: number;
}

function inMemory(): Kept {
  const clock = virtualClock();
  const metadata = memoryStore({ clock, random: systemRandom(), intentTtlMs: defaultIntentTtlMs });
  return { clock, metadata, intentTtlMs: defaultIntentTtlMs };
}

interface Further {
  /** Wraps the store in each process; its state is lost with the process. */
  readonly over?: (metadata: MetadataStore, clock: VirtualClock) => MetadataStore;
  readonly kept?: Kept;
}

export function frontDoor(
  more: Partial<Readonly<Record<SettingName, string>>> = {},
  { over = (metadata) => metadata, kept = inMemory() }: Further = {},
) {
  const { clock, intentTtlMs } = kept;
  const seen = { buckets: new Set<string>(), uploads: new Set<string>(), manifests: new Set<string>() };
  const inner = remembering(kept.metadata, seen);
  const metadata = over(inner, clock);
  const settings = {
    SVC_BUCKET_SHARDS: '4',
    SVC_GC_GRACE: `${graceMs}ms`,
    SVC_INTENT_TTL: `${intentTtlMs}ms`,
    ...more,
  };
  const random = systemRandom();
  const hasher = nodeHasher();
  const cipher = nodeCipher();
  const common = {
    caches: new Caches(),
    siblings: noSiblings,
    clock,
    random,
    config: configWith(settings),
    hasher,
    cipher,
    sealer: masterSealer({ keys: [random.bytes(cipherKeyBytes)], cipher, hasher, random }),
    bodyMemory: new SharedMemory(Number.POSITIVE_INFINITY),
    telemetry: silentTelemetry,
    credentials: staticCredentials([{ ...keys, owner: 'o', displayName: 'o', root: true, operator: false }]),
  };
  const late = (to: MetadataStore) => lateWrites({ metadata: to, clock, telemetry: silentTelemetry });
  const contextOn = (store: MetadataStore, bytes: ObjectBytes): Context => ({
    ...common,
    metadata: store,
    lateWrites: late(store),
    bytes,
    clusterStates: openClusterStates({ ...common, metadata: store, bytes }),
  });
  const stores = common.config.SVC_POOL_CLUSTERS.map(({ id }) => [id, memoryChunks()] as const);
  const bytesOver = (wrap: (store: ChunkStore) => ChunkStore): ObjectBytes =>
    chunked(Object.fromEntries(stores.map(([id, store]) => [id, wrap(store)])));
  const ctx = contextOn(
    metadata,
    bytesOver((store) => store),
  );
  const signing = signer({ ...keys, now: () => clock.now() });

  return {
    ...ctx,
    clock,
    metadata,
    /**
     * A process that dies at a call: from then on its calls have no effect and never return.
     * @param delay how many turns of the event loop each of its calls waits, so that processes interleave
     * @param disturbed replaces one of its calls
     */
    process(kill?: Kill, delay?: () => number, disturbed?: Disturbance) {
      const { promise: died, resolve: die } = Promise.withResolvers<void>();
      const life: Life & { hasDied(): boolean } = {
        calls: 0,
        delay,
        disturbed,
        die,
        hasDied: () => kill !== undefined && life.calls >= kill.call,
      };
      const mine = contextOn(
        over(mortal(inner, life, kill), clock),
        bytesOver((store) => mortal(store, life, kill)),
      );
      const gateway = createGateway(mine);
      return {
        ctx: mine,
        hasDied: life.hasDied,
        calls: () => life.calls,
        /** Resolves when the process is dead and the call at which it was killed has had its effect. */
        died,
        async send(spec: RequestSpec): Promise<Answer> {
          const response = await gateway.fetch(toRequest(signing.request(spec)));
          return { status: response.status, headers: response.headers, text: await response.text() };
        },
      };
    },
    /** Lets the intents of dead processes expire, sweeps, and runs gc until its queue is empty. */
    async cleanUp() {
      await clock.advance(intentTtlMs + reopenedMs);
      await sweep(ctx, never);
      const unit = collectGarbage(ctx);
      for (let round = 0; round < 50 && (await backlog(metadata, 'gc')) > 0; round += 1) {
        await clock.advance(graceMs + 1);
        await unit(never);
      }
    },
    /** Every inconsistency after the clean-up. */
    async faults(): Promise<string[]> {
      const faults: string[] = [];
      const owned = await ownedExtents(metadata, seen, faults);
      const stored = await storedExtents(ctx);
      for (const id of stored) if (!owned.includes(id)) faults.push(`leaked: ${id}`);
      for (const id of owned) if (!stored.includes(id)) faults.push(`lost: ${id}`);
      if ((await metadata.abandoned()).length > 0) faults.push('an intent is left');
      if ((await backlog(metadata, 'gc')) > 0) faults.push('something is still queued');
      await runFsck(ctx, ({ kind, detail, key }) => void faults.push(`fsck: ${kind} ${key} ${detail}`));
      return faults;
    },
  };
}

/** What happens in the place of a call: it may run the call, pause, and fail. */
export interface Disturbance {
  readonly call: number;
  instead(act: () => Promise<unknown>): Promise<unknown>;
}

/** A call that takes effect, and whose answer waits for `goOn`. */
export function standingCall(call: number) {
  const reached = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const disturbed: Disturbance = {
    call,
    async instead(act) {
      const result = await act();
      reached.resolve();
      await gate.promise;
      return result;
    },
  };
  return { disturbed, reached: reached.promise, goOn: gate.resolve };
}

interface Life {
  calls: number;
  die(): void;
  readonly disturbed: Disturbance | undefined;
  readonly delay: (() => number) | undefined;
}

async function later(turns: number, act: () => unknown): Promise<unknown> {
  for (let each = 0; each < turns; each += 1) await turn();
  return act();
}

/** Ignores the failure, because the process that would log it is dead. */
async function effectOf({ when }: Kill, act: () => unknown): Promise<void> {
  if (when === 'after') await Promise.resolve(act()).catch(() => {});
}

function mortal<Port extends object>(port: Port, life: Life, kill: Kill | undefined): Port {
  const lives = (act: () => unknown): unknown => {
    const call = ++life.calls;
    const { disturbed } = life;
    if (call === disturbed?.call) return disturbed.instead(async () => act());
    if (kill === undefined || call < kill.call) return later(life.delay?.() ?? 0, act);
    // The call takes effect, but its caller is dead before it returns.
    if (call === kill.call) void effectOf(kill, act).then(life.die);
    return forever;
  };
  /** A stream or cursor can die at any of its steps. */
  async function* reading(from: AsyncIterable<unknown>): AsyncGenerator<unknown> {
    await lives(async () => {});
    yield* from;
  }
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]) => {
        const act = (): unknown => value.apply(target, given);
        if (name === 'scan') return mortal(act() as object, life, kill);
        if (name === 'seek') return act();
        return name === 'read' || name === 'list' ? reading(act() as AsyncIterable<unknown>) : lives(act);
      };
    },
  });
}

interface Seen {
  readonly buckets: Set<string>;
  readonly uploads: Set<string>;
  readonly manifests: Set<string>;
}

/** Records every partition that is written, so that the oracle can read all of them. */
function remembering<Store extends MetadataStore>(metadata: Store, seen: Seen): Store {
  const note = (at: { readonly table: { readonly name: string }; readonly in: object }): void => {
    const { bucketId, uploadId, id } = at.in as { bucketId?: string; uploadId?: string; id?: string };
    if (at.table.name === objects.name) seen.buckets.add(bucketId ?? '');
    if (at.table.name === uploads.name) seen.uploads.add(uploadId ?? '');
    if (at.table.name === manifests.name) seen.manifests.add(id ?? '');
  };
  const commit: MetadataStore['commit'] = (at, changes, options) => {
    note(at);
    return metadata.commit(at, changes, options);
  };
  const apply: MetadataStore['apply'] = (changes) => {
    for (const { at } of changes) note(at);
    return metadata.apply(changes);
  };
  return faulty<MetadataStore>(metadata, { commit, apply }) as Store;
}

async function ownedExtents(metadata: MetadataStore, seen: Seen, faults: string[]): Promise<string[]> {
  const owned: Extent[] = [];
  const manifestIds = new Set<string>();
  for (const bucketId of seen.buckets) {
    const at = { table: objects, in: { bucketId }, ways: shardsMax };
    const rows = await metadata.scan(at).next(100_000);
    for (const { row } of rows) {
      const { manifest } = row;
      if ('extents' in manifest) owned.push(...manifest.extents);
      else if ('parts' in manifest) owned.push(...manifest.parts.map((part) => part.extent));
      else manifestIds.add(manifest.manifestId);
    }
  }
  for (const id of seen.manifests) {
    const rows = await metadata.scan({ table: manifests, in: { id } }).next(100_000);
    if (rows.length > 0 && !manifestIds.has(id)) faults.push(`manifest ${id} has no owner`);
    owned.push(...rows.flatMap(({ row }) => row.parts.map((part) => part.extent)));
  }
  for (const uploadId of seen.uploads) {
    const [first, ...parts] = await metadata.scan({ table: uploads, in: { uploadId } }).next(100_000);
    const state = first?.row.session?.state;
    if (state === 'completing') faults.push(`upload ${uploadId} is still completing`);
    if (state === 'uploading')
      owned.push(...parts.flatMap(({ row }) => (row.stored ? [row.stored.extent] : [])));
    else if (parts.length > 0) faults.push(`upload ${uploadId} is ${state} and has ${parts.length} parts`);
  }
  return owned.filter(({ size }) => size > 0).map(({ id }) => id);
}

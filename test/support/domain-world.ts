/**
 * The domain over the memory backends on a virtual clock, in any number of simulated processes, each of which can be killed at any call of
 * a port; and a check that reads every row without the domain's code.
 */
import { nodeCipher, nodeHasher } from '../../src/backends/crypto/node.ts';
import { chunked } from '../../src/backends/data/chunked/chunked.ts';
import { memoryChunks } from '../../src/backends/data/memory.ts';
import { masterSealer } from '../../src/backends/keys/sealing.ts';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { Context } from '../../src/context.ts';
import { createBucket, setVersioning } from '../../src/domain/buckets/bucket.ts';
import { openClusterStates } from '../../src/domain/clusters/cluster-states.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import type { KeyUser } from '../../src/domain/content/provider-key.ts';
import { deleteObject } from '../../src/domain/objects/delete-object.ts';
import { writeObject } from '../../src/domain/objects/write-object.ts';
import { sweep } from '../../src/domain/storage/sweep.ts';
import { completeUpload } from '../../src/domain/uploads/complete-upload.ts';
import {
  abortUpload,
  createUpload,
  openUploading,
  writePart,
} from '../../src/domain/uploads/upload-session.ts';
import { backlog } from '../../src/metadata/background/queues.ts';
import { type BucketRow, manifests, objects, uploads } from '../../src/metadata/tables.ts';
import { cipherKeyBytes } from '../../src/ports/cryptography.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import type { Extent, ObjectBytes } from '../../src/ports/object-bytes.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { noSiblings } from '../../src/ports/siblings.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { holdingUploads } from './holding-uploads.ts';
import { virtualClock } from './virtual-clock.ts';

/** A user that may use every key, because the domain does not authorize. */
const anyKeyUser: KeyUser = { account: 'alice', assertMayUse: async () => {} };
/** The permissions of a completion. */
export const anyCaller = { user: anyKeyUser, assertMayReplicate: async (): Promise<void> => {} };

export const graceMs = 10 * 60_000;
export const intentTtlMs = 60_000;
const forever = new Promise<never>(() => {});
const never = new AbortController().signal;

export type DomainWorld = Awaited<ReturnType<typeof domainWorld>>;
/** `after`: the call takes effect, but its caller is dead before it returns. */
export interface Kill {
  readonly call: number;
  readonly when: 'before' | 'after';
}

const plainBytes = (): ObjectBytes => chunked({ default: memoryChunks() });
/** The two ways of a byte store to keep parts of uploads; tests of uploads run on both. */
export const partStores: Readonly<Record<string, () => ObjectBytes>> = {
  'extents of their own': plainBytes,
  'held by the store': () => holdingUploads(plainBytes()),
};

export async function domainWorld(versioning: '' | 'Enabled' | 'Suspended' = '', makeBytes = plainBytes) {
  const clock = virtualClock();
  const random = systemRandom();
  const config = configWith({
    SVC_GC_GRACE: `${graceMs}ms`,
    SVC_INTENT_TTL: `${intentTtlMs}ms`,
    SVC_BUCKET_SHARDS: '4',
  });
  const metadata = memoryStore({ clock, random, intentTtlMs });
  const bytes = makeBytes();
  const hasher = nodeHasher();
  const cipher = nodeCipher();
  const sealer = masterSealer({ keys: [random.bytes(cipherKeyBytes)], cipher, hasher, random });
  const common = {
    caches: new Caches(),
    siblings: noSiblings,
    clock,
    random,
    config,
    hasher,
    cipher,
    sealer,
    telemetry: silentTelemetry,
  };
  const statesOf = (ports: Pick<Context, 'metadata' | 'bytes'>) => openClusterStates({ ...common, ...ports });
  const ctx = { ...common, metadata, bytes, clusterStates: statesOf({ metadata, bytes }) };
  await ctx.clusterStates.view();
  const named = {
    name: 'bucket',
    owner: 'o',
    ownerName: 'o',
    creator: 'o',
    region: 'default',
    documents: {},
  };
  await createBucket(ctx, { ...named, objectLock: false });
  if (versioning !== '') await setVersioning(ctx, await openBucket(ctx, 'bucket'), { versioning });

  return {
    ...ctx,
    /** A process that dies at a call: from then on its calls have no effect and never return. */
    process(kill?: Kill) {
      let calls = 0;
      const mortal = <Port extends object>(port: Port): Port =>
        new Proxy(port, {
          get(target, name) {
            const value: unknown = Reflect.get(target, name, target);
            if (name === 'uploads' && typeof value === 'object' && value !== null) return mortal(value);
            if (typeof value !== 'function' || name === 'find' || name === 'scan')
              return bindTo(value, target);
            return (...given: unknown[]) => {
              const call = ++calls;
              if (kill === undefined || call < kill.call) return value.apply(target, given);
              if (call === kill.call && kill.when === 'after') void value.apply(target, given);
              return forever;
            };
          },
        });
      const ports = { metadata: mortal(metadata), bytes: mortal(bytes) };
      const mine = { ...common, ...ports, clusterStates: statesOf(ports) };
      return Object.assign(actions(mine), {
        ctx: mine,
        hasDied: () => kill !== undefined && calls >= kill.call,
      });
    },
    /** A process with another metadata store. */
    over: (itsMetadata: MetadataStore) => {
      const ports = { metadata: itsMetadata, bytes };
      return actions({ ...common, ...ports, clusterStates: statesOf(ports) });
    },
    bucket: () => openBucket(ctx, 'bucket'),
    setVersioning: async (versioning: 'Enabled' | 'Suspended') =>
      setVersioning(ctx, await openBucket(ctx, 'bucket'), { versioning }),
    /** Lets the intents of dead processes expire, sweeps, and runs gc until its queue is empty. */
    async cleanUp() {
      await clock.advance(intentTtlMs + 1);
      await sweep(ctx, never);
      const unit = collectGarbage(ctx);
      for (let round = 0; round < 50 && (await backlog(metadata, 'gc')) > 0; round += 1) {
        await clock.advance(graceMs + 1);
        await unit(never);
      }
    },
  };
}

const bindTo = (value: unknown, target: object): unknown =>
  typeof value === 'function' ? value.bind(target) : value;

type ActionContext = Parameters<typeof writeObject>[0];

/** The actions of clients, in short form. */
function actions(ctx: ActionContext) {
  const common = { owner: 'o', conditions: undefined, requestId: 'request', signal: never };
  const content = (text: string) => {
    const body = new TextEncoder().encode(text);
    const source = (async function* () {
      yield body;
    })();
    return { source, length: body.length, claims: {} };
  };
  const bucket = (): Promise<BucketRow> => openBucket(ctx, 'bucket');
  return {
    put: async (key: string, text: string) =>
      writeObject(
        ctx,
        { ...common, bucket: await bucket(), key, storageClass: 'STANDARD', headers: {} },
        content(text),
      ),
    remove: async (key: string, versionId?: string) =>
      deleteObject(ctx, {
        ...common,
        bucket: await bucket(),
        key,
        ...(versionId === undefined ? {} : { versionId }),
      }),
    createUpload: async (key: string) =>
      (
        await createUpload(ctx, {
          key,
          storageClass: 'STANDARD',
          owner: 'o',
          initiator: 'o',
          bucket: await bucket(),
          headers: {},
          requestId: 'request',
        })
      ).uploadId,
    async putPart(key: string, uploadId: string, given: { part: number; text: string }) {
      const name = { bucket: await bucket(), key, uploadId };
      const write = { name, part: given.part, requestId: 'request', signal: never };
      return writePart(ctx, await openUploading(ctx, name), write, content(given.text));
    },
    complete: async (key: string, uploadId: string, parts: readonly { number: number; etag: string }[]) =>
      completeUpload(ctx, {
        ...common,
        name: { bucket: await bucket(), key, uploadId },
        parts: parts.map((part) => ({ ...part, checksums: {} })),
        claims: {},
        ...anyCaller,
      }),
    abort: async (key: string, uploadId: string) =>
      abortUpload(ctx, { bucket: await bucket(), key, uploadId }, { requestId: 'request' }),
  };
}

/** The ids of the extents that the rows name, read row by row: heads, history, manifests, parts. */
export async function ownedExtents(
  { metadata, bucket }: Pick<DomainWorld, 'metadata' | 'bucket'>,
  uploadIds: readonly string[] = [],
): Promise<readonly string[]> {
  const owned: Extent[] = [];
  const { id: bucketId, shards: ways } = await bucket();
  const rows = metadata.scan({ table: objects, in: { bucketId }, ways });
  for (const { row } of await rows.next(100_000)) {
    const { manifest } = row;
    if ('extents' in manifest) owned.push(...manifest.extents);
    else if (manifest.whole !== undefined) owned.push(manifest.whole);
    else if ('parts' in manifest) owned.push(...manifest.parts.map((part) => part.extent));
    else {
      const segments = await metadata
        .scan({ table: manifests, in: { id: manifest.manifestId } })
        .next(100_000);
      owned.push(...segments.flatMap((segment) => segment.row.parts.map((part) => part.extent)));
    }
  }
  for (const uploadId of uploadIds) {
    const [session, ...parts] = await metadata.scan({ table: uploads, in: { uploadId } }).next(100_000);
    const { state, extentId } = session?.row.session ?? {};
    if (state !== 'uploading' && state !== 'completing') continue;
    // An upload that the store holds is one extent; its parts are none.
    if (extentId !== undefined) owned.push({ cluster: '', id: extentId, size: 0 });
    if (extentId !== undefined) continue;
    owned.push(...parts.flatMap(({ row }) => (row.stored ? [row.stored.extent] : [])));
  }
  return owned.map((extent) => extent.id).sort();
}

export async function storedExtents({ bytes }: Pick<DomainWorld, 'bytes'>): Promise<readonly string[]> {
  const stored: string[] = [];
  for (const cluster of bytes.clusters)
    for await (const { extent } of bytes.find(cluster, '')) stored.push(extent.id);
  return stored.sort();
}

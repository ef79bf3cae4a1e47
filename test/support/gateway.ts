/**
 * The whole gateway in a test: composed from settings like at a start, with clients that sign every request, and with functions that run
 * background work and inspect the stored bytes. Use the front door where possible.
 *
 * ```ts
 * await using world = await openGateway();
 * await world.client.put('/bucket');
 * expect((await world.client.put('/bucket/key', { body: 'hello' })).status).toBe(200);
 * ```
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGateway } from '../../src/admin-gateway.ts';
import { openNodeSqlite } from '../../src/backends/metadata/records/node-sqlite.ts';
import { sqliteStore } from '../../src/backends/metadata/records/sqlite.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { SettingName } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { sweep } from '../../src/domain/storage/sweep.ts';
import type { Gateway, GatewayOptions } from '../../src/gateway.ts';
import { dueRows, queueSlots } from '../../src/metadata/background/queues.ts';
import { readUsage } from '../../src/metadata/buckets/usage.ts';
import { uploadIndex } from '../../src/metadata/tables.ts';
import { openPortable } from '../../src/portable-context.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import type { Credential } from '../../src/ports/credentials.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { Telemetry } from '../../src/ports/telemetry.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { Defects } from './defects.ts';
import { ownedExtents, storedExtents } from './domain-world.ts';
import { emptyKeyspace } from './engines/cassandra.ts';
import { type Client, type ClientOptions, openClient } from './gateway-client.ts';

export type Backend =
  | 'memory'
  | 'embedded+file'
  | 'sqlite'
  | 'ordered-kv'
  | 'wide-column'
  | 'upstream-store'
  | 'workers';
const endpoints = process.env['SVC_KV_PD_ENDPOINTS'];
/** `SLUICE_TEST_SQLITE=1 vitest run …`: SQLite is no setting, but the storage of a Durable Object. */
const withSqlite = process.env['SLUICE_TEST_SQLITE'] === '1';
/** Set by test/workers/handlers.test.ts: requests go to a gateway in workerd. */
const onWorkers = process.env['SLUICE_TEST_WORKERS'] === '1';
const hosts = process.env['SVC_WIDECOL_HOSTS'];
const fromEnvironment = (name: SettingName): string => process.env[name] ?? '';
const upstream = {
  SVC_UPSTREAM_ENDPOINT: fromEnvironment('SVC_UPSTREAM_ENDPOINT'),
  SVC_UPSTREAM_ACCESS_KEY: fromEnvironment('SVC_UPSTREAM_ACCESS_KEY'),
  SVC_UPSTREAM_SECRET_KEY: fromEnvironment('SVC_UPSTREAM_SECRET_KEY'),
};
/** The bucket that must exist on an upstream that a setting names. */
export const upstreamBucket = 'sluice-laws';
/** For `describe.each`: the backends on which every storage test runs; on an engine if a setting names one (see test/run.ts). */
export const backends: readonly Backend[] = onWorkers
  ? ['workers']
  : [
      'memory',
      'embedded+file',
      ...(withSqlite ? ['sqlite' as const] : []),
      ...(endpoints === undefined ? [] : ['ordered-kv' as const]),
      ...(hosts === undefined ? [] : ['wide-column' as const]),
      ...(upstream.SVC_UPSTREAM_ENDPOINT === '' ? [] : ['upstream-store' as const]),
    ];

const tikvSettings = () => ({
  SVC_KV_PD_ENDPOINTS: endpoints ?? '',
  SVC_KV_PREFIX: `${randomBytes(8).toString('hex')}/`,
});

/** Metadata in memory, and the bytes of each world under a separate prefix. */
const upstreamSettings = () => ({
  SVC_DATA_BACKEND: 'upstream-store',
  SVC_UPSTREAMS: JSON.stringify([
    { id: 'default', bucket: upstreamBucket, prefix: `${randomBytes(8).toString('hex')}/` },
  ]),
  ...upstream,
});

/** One keyspace for each process of tests, emptied for every world, because to create a keyspace takes seconds. */
async function cassandraSettings() {
  const keyspace = `world_${process.env['VITEST_POOL_ID']}`;
  await emptyKeyspace((hosts ?? '').split(','), keyspace);
  return {
    SVC_WIDECOL_HOSTS: hosts ?? '',
    SVC_WIDECOL_KEYSPACE: keyspace,
    SVC_WIDECOL_REPLICATION: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
  };
}

async function settingsOf(
  backend: Backend,
  directory: string | undefined,
): Promise<GatewayWorldOptions['settings']> {
  if (backend === 'upstream-store') return upstreamSettings();
  if (backend === 'memory' || backend === 'sqlite' || directory === undefined) return {};
  if (backend === 'embedded+file') return { SVC_DATA_DIR: directory };
  const masterKey = join(directory, 'master.key');
  await writeFile(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
  return {
    SVC_META_BACKEND: backend,
    SVC_DATA_BACKEND: 'memory',
    // Changes take effect immediately in a test, as without other gateways.
    SVC_CONFIG_CACHE_TTL: '0s',
    ...(backend === 'ordered-kv' ? tikvSettings() : await cassandraSettings()),
    SVC_CREDENTIALS: JSON.stringify([alice, bob, operator]),
    SVC_MASTER_KEY_FILE: masterKey,
  };
}

export interface GatewayWorldOptions extends GatewayOptions {
  readonly clock?: Clock;
  readonly settings?: Partial<Readonly<Record<SettingName, string>>>;
  readonly backend?: Backend;
  readonly telemetry?: Telemetry;
  /** Credentials beside those of alice, bob and the operator. */
  readonly people?: readonly Credential[];
  /** Replaces ports, for example with counting or slow ones. */
  readonly wrap?: (context: Context) => Context;
}

const sqliteIn = (directory: string, clock: Clock) =>
  sqliteStore(openNodeSqlite({ path: join(directory, 'metadata.sqlite'), durable: false }), {
    clock,
    random: systemRandom(),
  });

const never = new AbortController().signal;

export const person = (name: string, more: Partial<Credential> = {}): Credential => ({
  accessKey: `KEY-${name}`,
  secretKey: `secret-of-${name}`,
  owner: `${name}-account`,
  displayName: name,
  root: true,
  operator: false,
  ...more,
});
export const alice = person('alice');
export const bob = person('bob');
export const operator = person('operator', { operator: true });

export interface GatewayWorld extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly context: Context;
  /** Alice in the public dialect. */
  readonly client: Client;
  /** Alice in the specification's own dialect. */
  readonly neutral: Client;
  readonly bob: Client;
  /** An anonymous client; its requests have no dialect. */
  readonly anonymous: Client;
  as(options?: ClientOptions): Client;
  /** Runs one unit of gc. */
  collect(): Promise<void>;
  /** Runs gc until nothing is due. */
  gc(): Promise<void>;
  sweep(): Promise<void>;
  /** Bytes and objects of a bucket over all its storage classes. */
  usage(bucket: string): Promise<{ readonly bytes: number; readonly objects: number }>;
  /** Ids of the stored extents. */
  stored(): Promise<readonly string[]>;
  /** Ids of the extents that the rows of a bucket name: versions, and parts of open uploads. */
  owned(bucket: string): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function openGateway(options: GatewayWorldOptions = {}): Promise<GatewayWorld> {
  const { clock = systemClock, wrap = (context: Context) => context } = options;
  const { backend = onWorkers ? 'workers' : 'memory' } = options;
  if (onWorkers) return openOnWorkers({ ...options, backend });
  const directory = backend === 'memory' ? undefined : await mkdtemp(join(tmpdir(), 'sluice-'));
  const config = configWith({
    SVC_BUCKET_SHARDS: '4',
    SVC_GC_GRACE: '0s',
    SVC_FSYNC: 'never',
    // Avoid files that a world would write needlessly.
    SVC_DISK_RESERVE: '0',
    ...(await settingsOf(backend, directory)),
    ...options.settings,
  });
  const { telemetry } = options;
  const credentials = [alice, bob, operator, ...(options.people ?? [])];
  const ports = { clock, ...(telemetry === undefined ? {} : { telemetry }) };
  const composed =
    backend === 'sqlite' && directory !== undefined
      ? openPortable(
          { ...config, SVC_CREDENTIALS: credentials },
          { ...ports, metadata: sqliteIn(directory, clock) },
        )
      : await compose(config, { credentials, ...ports });
  const defects = new Defects();
  const context = watched(wrap(composed.context), defects);
  const gateway = createGateway(context, { basePath: options.basePath ?? '' });
  const as = (given: ClientOptions = {}): Client =>
    openClient(gateway, clock, { credential: alice, ...given });
  const close = async (): Promise<void> => {
    await composed.close();
    if (directory !== undefined) await rm(directory, { recursive: true, force: true });
    defects.assertNone();
  };
  return {
    gateway,
    context,
    client: as(),
    neutral: as({ dialect: 'store' }),
    bob: as({ credential: bob }),
    anonymous: as({ anonymous: true }),
    as,
    ...background(context),
    ...stock(context),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The gateway and its storage run in workerd; background work and looks at the storage run here, over the same object and bucket. */
async function openOnWorkers(options: GatewayWorldOptions): Promise<GatewayWorld> {
  const { openWorkersWorld } = await import('../workers/handler-world.ts');
  const credentials = [alice, bob, operator, ...(options.people ?? [])];
  const { gateway, context } = await openWorkersWorld(options, credentials);
  const as = (given: ClientOptions = {}): Client =>
    openClient(gateway, context.clock, { credential: alice, ...given });
  const close = async (): Promise<void> => {};
  return {
    gateway,
    context,
    client: as(),
    neutral: as({ dialect: 'store' }),
    bob: as({ credential: bob }),
    anonymous: as({ anonymous: true }),
    as,
    ...background(context),
    ...stock(context),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function watched(context: Context, defects: Defects): Context {
  const { log } = context.telemetry;
  const seeing: Telemetry['log'] = (level, message, fields, ...others) => {
    defects.see(message, fields);
    log(level, message, fields, ...others);
  };
  return { ...context, telemetry: { ...context.telemetry, log: seeing } };
}

/** Runs the workers of one gateway step by step. */
export function background(context: Context): Pick<GatewayWorld, 'collect' | 'gc' | 'sweep'> {
  const unit = collectGarbage(context);
  const isDue = async (): Promise<boolean> => {
    const now = await context.metadata.now();
    for (let slot = 0; slot < queueSlots; slot += 1) {
      if ((await dueRows(context.metadata, { queue: 'gc', slot, now, max: 1 })).length > 0) return true;
    }
    return false;
  };
  return {
    async collect() {
      await unit(never);
    },
    async gc() {
      for (let round = 0; round < 200 && (await isDue()); round += 1) await unit(never);
      if (await isDue()) throw new Error('gc does not come to an end');
    },
    async sweep() {
      await sweep(context, never);
    },
  };
}

function stock({ metadata, bytes }: Context): Pick<GatewayWorld, 'usage' | 'stored' | 'owned'> {
  return {
    async usage(name) {
      const { id } = await openBucket({ metadata }, name);
      const sum = { bytes: 0, objects: 0 };
      for (const each of (await readUsage(metadata, id)).values()) {
        sum.bytes += each.bytes;
        sum.objects += each.objects;
      }
      return sum;
    },
    stored: () => storedExtents({ bytes }),
    async owned(name) {
      const bucket = await openBucket({ metadata }, name);
      const open = await metadata.scan({ table: uploadIndex, in: { bucketId: bucket.id } }).next(10_000);
      const world = { metadata: metadata as never, bucket: async () => bucket };
      return ownedExtents(
        world,
        open.map(({ row }) => row.uploadId),
      );
    },
  };
}

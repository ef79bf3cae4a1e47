/** Sites that replicate to each other: gateways behind real listeners, whose answers a test may replace. */
import { expect, onTestFinished, vi } from 'vitest';
import { Caches } from '../../src/base/bounded-cache.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { countWaiting } from '../../src/domain/replication/peers.ts';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { findHead } from '../../src/metadata/objects/objects.ts';
import { DataUnavailable } from '../../src/ports/object-bytes.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import type { WireHeaders } from '../../src/protocol/wire.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from './clusters.ts';
import { alice, type GatewayWorld, type GatewayWorldOptions, openGateway } from './gateway.ts';
import { setVersioning } from './gateway-bodies.ts';
import { makeRole, roleArnOf } from './replication-role.ts';
import { serveStub } from './server-stub.ts';

export const settings = {
  SVC_EGRESS_ALLOW: '127.0.0.1',
  SVC_REPLICATION_TIMEOUT: '20s',
  SVC_REPLICATION_INTERVAL: '10ms',
};
export const keys = {
  accessKey: alice.accessKey,
  secretKey: alice.secretKey,
  accounts: [{ account: alice.owner, buckets: ['*'] }],
};
/** Long enough on a machine that runs other suites at the same time. */
export const until = { timeout: 180_000, interval: 20 };
export const refusal = (status: number, code: string): Reply => ({
  status,
  headers: [],
  body: `<Error><Code>${code}</Code></Error>`,
});
export const never = new AbortController().signal;

export interface Site {
  readonly world: GatewayWorld;
  readonly endpoint: string;
  /** Requests that other sites have sent, for example `PUT replica`. */
  readonly requests: string[];
  /** Those of them that the gateway itself has answered with success. */
  readonly taken: string[];
  /** Answers instead of the gateway, while it is set. */
  instead: ((method: string, target: string, headers: WireHeaders) => Reply | undefined) | undefined;
  /** Happens before each request is answered. */
  before: ((target: string) => Promise<unknown> | undefined) | undefined;
}

export async function openSite(options: GatewayWorldOptions = {}): Promise<Site> {
  const world = await openGateway({ settings, ...options });
  onTestFinished(() => world.close());
  const requests: string[] = [];
  const taken: string[] = [];
  const site: { -readonly [K in keyof Site]: Site[K] } = {
    ...{ world, endpoint: '', requests, taken },
    instead: undefined,
    before: undefined,
  };
  const handle: typeof world.gateway.handle = async (...call) => {
    const { method, target, headers } = call[0].wire;
    const [, name] = /[?&](replica|replica-state)=[0-9a-f]/.exec(target) ?? [];
    if (name !== undefined) requests.push(`${method} ${name}`);
    await site.before?.(target);
    const instead = site.instead?.(method, target, headers);
    if (instead !== undefined) return instead;
    const reply = await world.gateway.handle(...call);
    if (name !== undefined && reply.status < 300) taken.push(`${method} ${name}`);
    return reply;
  };
  const { port } = await serveStub(handle);
  site.endpoint = `http://127.0.0.1:${port}`;
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  await makeRole(world);
  return site;
}

export const rule = (peer: string, more = '', criteria = '', destination = ''): string =>
  `<ReplicationConfiguration><Role>${roleArnOf(alice.owner)}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
   <Status>Enabled</Status>${criteria}<Destination><Bucket>arn:sluice:replication::${peer}:bucket</Bucket>${destination}</Destination>
   <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication>${more}</Rule></ReplicationConfiguration>`;
export const modifications =
  '<SourceSelectionCriteria><ReplicaModifications><Status>Enabled</Status></ReplicaModifications></SourceSelectionCriteria>';

/** Makes `from` replicate its bucket to `to`. */
export async function link(
  from: Site,
  to: Site,
  { more = '', criteria = '', destination = '' } = {},
): Promise<void> {
  await operatorOf(from.world).must('PUT', '/replication/peers/far', { ...keys, endpoint: to.endpoint });
  const put = await from.world.client.put('/bucket?replication', {
    body: rule('far', more, criteria, destination),
  });
  expect(put.text).toBe('');
}

export function run(...sites: readonly Site[]): void {
  for (const { world } of sites) {
    const running = startWorkers(world.context, ['replicator'], never);
    onTestFinished(() => running.stop());
  }
}

/** A process that changes the bucket ends between the row and the fence, so commits under either generation are refused until it is raised. */
export async function leaveFenceBehind(
  { world: { context } }: Site,
  change: { readonly closedAt?: number } = {},
): Promise<void> {
  const { metadata } = context;
  const found = await findBucket(metadata, 'bucket');
  if (found === undefined) throw new Error('the bucket is missing');
  const row = { ...found.row, ...change, generation: found.row.generation + 1 };
  expect(await replaceBucket(metadata, found, row)).toMatchObject({ applied: true });
}

interface Listed {
  readonly id: string;
  readonly key: string;
  readonly etag: string;
  readonly isLatest: string;
}

export async function versions({ world }: Site): Promise<readonly Listed[]> {
  const list = await world.client.get('/bucket?versions');
  return [...list.text.matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/gs)].map(([, , text = '']) => {
    const of = (name: string): string => new RegExp(`<${name}>(.*?)</${name}>`).exec(text)?.[1] ?? '';
    return { id: of('VersionId'), key: of('Key'), etag: of('ETag'), isLatest: of('IsLatest') };
  });
}

/** Versions and the tags of the current ones. */
export async function stateOf(site: Site): Promise<unknown> {
  const all = await versions(site);
  const current = all.filter(({ isLatest, etag }) => isLatest === 'true' && etag !== '');
  const tags = await Promise.all(
    current.map(async ({ key }) => (await site.world.client.get(`/bucket/${key}?tagging`)).text),
  );
  return { all, tags };
}

export const alike = (one: Site, two: Site) =>
  vi.waitFor(async () => expect(await versions(two)).toEqual(await versions(one)), until);

export const statusOf = async ({ world }: Site, path: string): Promise<string | undefined> =>
  (await world.client.head(path)).header('*-replication-status');

export const settled = (site: Site, path: string, status: string) =>
  vi.waitFor(async () => expect(await statusOf(site, path)).toBe(status), until);

/**
 * Waits until nothing waits to be sent. It counts by itself, because `GET /admin/v1/replication/status` may show a count from before the
 * change that a test has just made.
 */
export const drained = ({ world: { context } }: Site) =>
  vi.waitFor(
    async () => expect([...(await countWaiting({ ...context, caches: new Caches() }))]).toEqual([]),
    until,
  );

/** Runs the replicator of a site whose current version of a key cannot be read. @returns what makes it readable again */
export async function hideContent({ world }: Site, key: string): Promise<() => void> {
  const { context } = world;
  const hidden = await findHead(context.metadata, await openBucket(context, 'bucket'), key);
  const lost =
    hidden !== undefined && 'extents' in hidden.row.manifest ? hidden.row.manifest.extents[0]?.id : '';
  let isAway = true;
  const bytes: typeof context.bytes = Object.create(context.bytes, {
    read: {
      value: (...call: Parameters<typeof context.bytes.read>) => {
        if (isAway && call[0].id === lost) throw new DataUnavailable('the cluster is away');
        return context.bytes.read(...call);
      },
    },
  });
  const running = startWorkers({ ...context, bytes }, ['replicator'], never);
  onTestFinished(() => running.stop());
  return () => {
    isAway = false;
  };
}

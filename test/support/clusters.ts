/** Several clusters for tests, and an operator that changes their states. */
import { expect } from 'vitest';
import type { Context } from '../../src/context.ts';
import { runFsck } from '../../src/domain/fsck/fsck.ts';
import { everyCluster } from '../../src/metadata/background/clusters.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import {
  type Backend,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
  operator,
} from './gateway.ts';
import type { Ask } from './gateway-client.ts';
import { type VirtualClock, virtualClock } from './virtual-clock.ts';

export interface Operator {
  /** The status, and the JSON of the reply. */
  ask(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; json: Record<string, unknown> }>;
  /** Sends a request that must succeed. */
  must(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
}

/** A started gateway over these clusters, and its operator. */
export async function openClusters(
  clusters: string,
  options: GatewayWorldOptions = {},
): Promise<{ world: GatewayWorld; admin: Operator }> {
  const settings = { SVC_POOL_CLUSTERS: clusters, ...options.settings };
  const world = await openGateway({ ...options, settings });
  await world.context.clusterStates.view();
  return { world, admin: operatorOf(world) };
}

export function operatorOf(world: Pick<GatewayWorld, 'as'>): Operator {
  const client = world.as({ credential: operator });
  const ask: Operator['ask'] = async (method, path, body) => {
    const sent: Ask = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await client.send(method, `/admin/v1${path}`, sent);
    const json = answer.text === '' ? {} : (JSON.parse(answer.text) as Record<string, unknown>);
    return { status: answer.status, json };
  };
  return {
    ask,
    async must(method, path, body) {
      const { status, json } = await ask(method, path, body);
      if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(json)}`);
      return json;
    },
  };
}

const settings = {
  SVC_REBALANCE_RATE: '1TiB',
  SVC_REBALANCE_INTERVAL: '10ms',
  SVC_SSE_C_REQUIRE_TLS: 'false',
};

/** Two clusters and a test clock; at first only `a` has a weight. */
export async function openPair(backend: Backend = 'memory', options: GatewayWorldOptions = {}) {
  const clock = virtualClock();
  const given = { backend, clock, ...options, settings: { ...settings, ...options.settings } };
  const { world, admin } = await openClusters('a,b', given);
  await admin.must('PUT', '/clusters/b/weight', { weight: 0 });
  const drain = async () => {
    await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  };
  return { world, admin, clock, drain };
}

const tooYoung = 'The drain began less than a minute ago: writes that were placed before may be under way.';

/**
 * Expects that the drained cluster `a` can be removed. An engine has its own clock, not the test's: there the drain may be younger than
 * a minute, which is then the only reason against it.
 */
export async function expectReady(
  { context }: Pick<GatewayWorld, 'context'>,
  { admin, backend }: { readonly admin: Operator; readonly backend: Backend },
): Promise<void> {
  const before = await context.metadata.now();
  const { since, reasons, deregisterReady } = await admin.must('GET', '/clusters/a/drain-progress');
  const after = await context.metadata.now();
  const isVirtual = backend === 'memory' || backend === 'embedded+file';
  const agesMs = [before, after].map((now) => now - Date.parse(String(since)));
  const expected = agesMs.map((ageMs) => (isVirtual || ageMs >= 60_000 ? [] : [tooYoung]));
  expect(expected).toContainEqual(reasons);
  expect(deregisterReady).toBe((reasons as readonly string[]).length === 0);
}

/** The findings of fsck. */
export async function fsckOf({ context }: Pick<GatewayWorld, 'context'>): Promise<unknown[]> {
  const found: unknown[] = [];
  await runFsck(context, (finding) => void found.push(finding));
  return found;
}

/** The rows as `id state weight`. */
export const clusterRows = async ({ context }: Pick<GatewayWorld, 'context'>): Promise<string[]> =>
  (await everyCluster(context.metadata)).map(({ row: { id, state, weight } }) => `${id} ${state} ${weight}`);

/** The number of extents on a cluster. */
export async function extentsOn(
  { context }: Pick<GatewayWorld, 'context'>,
  cluster: string,
): Promise<number> {
  let count = 0;
  for await (const _ of context.bytes.find(cluster, '')) count += 1;
  return count;
}

/** Runs the rebalance worker and gc repeatedly, half a minute apart, long enough for an evacuation. */
export async function evacuate(context: Context, clock: VirtualClock): Promise<void> {
  for (const unit of Array.from({ length: 5 }, () => [rebalance(context), collectGarbage(context)]).flat()) {
    // The limit is for stores with their own clocks, where work that cannot be done is retried without end.
    for (let turn = 0; turn < 20 && (await unit(never)) === 'busy'; turn += 1);
    await clock.advance(31_000);
  }
}

const never = new AbortController().signal;

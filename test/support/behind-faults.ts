/** A gateway before an upstream with injected faults; each world has its own bucket there. */
import { expect } from 'vitest';
import type { Clock } from '../../src/ports/clock.ts';
import { type FaultyUpstream, startFaultyUpstream } from './faulty-upstream.ts';
import { alice, type GatewayWorld, openGateway } from './gateway.ts';
import { startUpstream, type UpstreamServer } from './upstream.ts';

export interface BehindFaults extends AsyncDisposable {
  readonly upstream: UpstreamServer;
  readonly way: FaultyUpstream;
  /** A world with the bucket `/bucket`, whose objects are stored in `upstreamBucket`. */
  open(options?: {
    readonly clock?: Clock;
    readonly settings?: Readonly<Record<string, string>>;
  }): Promise<GatewayWorld & { readonly upstreamBucket: string }>;
}

export async function behindFaults(): Promise<BehindFaults> {
  const upstream = await startUpstream();
  const way = await startFaultyUpstream(upstream.url);
  return {
    upstream,
    way,
    async open({ settings, ...options } = {}) {
      const upstreamBucket = await upstream.bucket();
      const world = await openGateway({
        ...options,
        settings: {
          SVC_DATA_BACKEND: 'upstream-store',
          SVC_UPSTREAMS: upstreamBucket,
          SVC_UPSTREAM_ENDPOINT: way.url,
          SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
          SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
          ...settings,
        },
      });
      await world.client.put('/bucket');
      return Object.assign(world, { upstreamBucket });
    },
    async [Symbol.asyncDispose]() {
      await way[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

/** After gc the stored bytes equal the owned bytes. */
export async function expectStored(world: GatewayWorld, objects: number): Promise<void> {
  await world.gc();
  expect(await world.stored()).toEqual(await world.owned('bucket'));
  expect(await world.stored()).toHaveLength(objects);
}

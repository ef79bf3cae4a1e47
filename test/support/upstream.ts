/** This gateway, served on a socket, as the upstream of another; and an `upstream-store` in front of fresh buckets of it. */

import { nodeHasher } from '../../src/backends/crypto/node.ts';
import type { Upstream } from '../../src/backends/data/upstream-store/client.ts';
import { upstreamStore } from '../../src/backends/data/upstream-store/store.ts';
import { WriteBudget } from '../../src/backends/data/write-budget.ts';
import { sharedBudget } from '../../src/base/shared-budget.ts';
import { configWith } from '../../src/config/read-config.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { ObjectBytes } from '../../src/ports/object-bytes.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { serve } from '../../src/runtime/node.ts';
import { alice, type GatewayWorld, type GatewayWorldOptions, openGateway } from './gateway.ts';

const MiB = 1024 * 1024;

export interface UpstreamServer extends AsyncDisposable {
  readonly url: string;
  readonly world: GatewayWorld;
  /** A fresh bucket. */
  bucket(): Promise<string>;
}

export async function startUpstream(
  options: GatewayWorldOptions = {},
  serving: Parameters<typeof configWith>[0] = {},
): Promise<UpstreamServer> {
  const world = await openGateway(options);
  const config = configWith({ SVC_LISTEN: '127.0.0.1:0', SVC_SHUTDOWN_TIMEOUT: '0s', ...serving });
  const served = await serve({ gateway: world.gateway, config });
  let buckets = 0;
  return {
    url: served.url,
    world,
    async bucket() {
      buckets += 1;
      const name = `upstream-${buckets}`;
      await world.client.put(`/${name}`);
      return name;
    },
    async [Symbol.asyncDispose]() {
      await served.close();
      await world.close();
    },
  };
}

/** The settings of an upstream: those of the test, and defaults. */
export const upstreamAt = (endpoint: string, bucket: string, more: Partial<Upstream> = {}): Upstream => ({
  id: 'default',
  endpoint,
  region: 'default',
  bucket,
  prefix: 'sluice/',
  accessKey: alice.accessKey,
  secretKey: alice.secretKey,
  style: 'path',
  insecure: false,
  timeoutMs: 20_000,
  ...more,
});

export const openUpstreams = (...upstreams: readonly Upstream[]): ObjectBytes =>
  upstreamStore(upstreams, {
    clock: systemClock,
    random: systemRandom(),
    hasher: nodeHasher(),
    budget: new WriteBudget(64 * MiB),
    partMemory: sharedBudget(64 * MiB),
  });

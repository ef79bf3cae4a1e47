/** The `upstream-store` backend: extents as objects of other S3 services, a bucket of one each cluster. */

import type { Clock } from '../../../ports/clock.ts';
import type { Hasher } from '../../../ports/crypto/hasher.ts';
import type { Random } from '../../../ports/random.ts';
import type { BodyMemory } from '../../../ports/storage/body-memory.ts';
import {
  ChunkMissing,
  type ClusterHealth,
  DataUnavailable,
  type ObjectBytes,
  unreachable,
} from '../../../ports/storage/object-bytes.ts';
import type { Cause } from '../../../ports/trace.ts';
import type { WriteBudget } from '../chunked/write-budget.ts';
import { openUpstreamClient } from './client/client.ts';
import type { Connection } from './client/connection.ts';
import type { Upstream } from './client/settings.ts';
import { findExtents } from './find.ts';
import { foreignObjects } from './foreign.ts';
import { markIn } from './marks.ts';
import { smallMax } from './put.ts';
import { readRange } from './read.ts';
import { removeExtents } from './remove.ts';
import { heldUploads } from './uploads/held-uploads.ts';
import { headObject } from './uploads/uploads.ts';
import { Vouching } from './vouching.ts';
import { singleMax, writeExtent } from './write.ts';

export interface UpstreamStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly hasher: Hasher;
  /** Bounds what all uploads hold in memory together; without it only each one is bounded. */
  readonly budget?: WriteBudget | undefined;
  /** For bodies of unknown length. */
  readonly partMemory: BodyMemory;
}

export function upstreamStore(upstreams: readonly Upstream[], options: UpstreamStoreOptions): ObjectBytes {
  const connections = new Map(upstreams.map((each) => [each.id, connect(each, options)]));
  const clusters = [...connections.keys()];

  function connectionTo(cluster: string, cause?: Cause): Connection {
    const connection = connections.get(cluster);
    if (connection === undefined)
      throw new DataUnavailable(`cluster ${cluster} is not configured; there are: ${clusters.join(', ')}`);
    return cause === undefined ? connection : { ...connection, client: connection.client.causedBy(cause) };
  }

  return {
    clusters,
    // An extent is one object.
    pieceBytes: Number.POSITIVE_INFINITY,
    uploads: heldUploads(connectionTo),
    marks: [...connections.values()].map(markIn),
    foreign: foreignObjects(connectionTo),

    // Hashing little costs little.
    verifies: async (cluster, size) =>
      size > smallMax && size <= singleMax && connectionTo(cluster).vouching.isGiven(),

    write: (source, write) => writeExtent(connectionTo(write.cluster, write.cause), source, write),

    read(extent, range = { start: 0, end: extent.size - 1 }, signal, cause) {
      const connection = connectionTo(extent.cluster, cause);
      if (extent.size < 0) throw new ChunkMissing(`extent ${extent.id} was never completed`);
      return readRange(connection, extent, { range, signal });
    },

    async remove(extents) {
      for (const [cluster, group] of Map.groupBy(extents, (extent) => extent.cluster))
        await removeExtents(connectionTo(cluster), group);
    },

    async *find(cluster, ...prefixes) {
      for (const prefix of prefixes) yield* findExtents(connectionTo(cluster), prefix);
    },

    async holdsAnything(cluster) {
      for await (const _ of findExtents(connectionTo(cluster), '')) return true;
      return false;
    },

    async isStored({ cluster, id, foreign }) {
      if (foreign !== undefined) return (await headObject(connectionTo(cluster), foreign.key)) !== undefined;
      for await (const { extent } of findExtents(connectionTo(cluster), `${id}.`)) {
        if (extent.id === id) return true;
      }
      return false;
    },

    health: () => Promise.all([...connections.values()].map(checkHealth)),

    async close() {
      await Promise.all([...connections.values()].map(({ client }) => client.close()));
    },
  };
}

function connect(upstream: Upstream, options: UpstreamStoreOptions): Connection {
  const { id, bucket, prefix } = upstream;
  const { clock, random, hasher, budget, partMemory } = options;
  const client = openUpstreamClient(upstream, { hasher, clock });
  const vouching = new Vouching({ client, prefix, hasher, clock });
  return { id, bucket, prefix, client, vouching, clock, random, hasher, budget, partMemory };
}

const healthTimeoutMs = 5_000;

/** Whether the bucket answers; its content is the upstream's concern. */
async function checkHealth({ id: cluster, bucket: pool, client }: Connection): Promise<ClusterHealth> {
  const bucket = { pool, namespace: '', bytesUsed: 0, chunkCount: 0 };
  try {
    await client.ask({ method: 'HEAD', timeoutMs: healthTimeoutMs });
    return { cluster, status: 'ok', complaints: [], pools: [{ ...bucket, state: 'reachable' }] };
  } catch (cause) {
    const error = cause instanceof Error ? cause.message : String(cause);
    return {
      cluster,
      status: unreachable,
      complaints: [error],
      pools: [{ ...bucket, state: 'error', error }],
    };
  }
}

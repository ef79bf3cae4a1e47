/**
 * The mark of the installation that a pool, or a namespace in it, belongs to: the attribute of an object without data. The
 * cluster compares and replaces an attribute in one operation, in erasure-coded pools too, whose data cannot be
 * overwritten. The name of the object is not that of a chunk; walks over a pool skip it.
 */
import type { Clock } from '../../../ports/clock.ts';
import { DataUnavailable, type MarkedPlace } from '../../../ports/storage/object-bytes.ts';
import type { Connection } from './connection.ts';
import { errno, isMissing, RadosFailure, type RadosPool } from './librados/driver.ts';
import type { PoolName, Pools } from './pools.ts';

const markName = 'installation.json';
/** A start waits for it; the timeout of operations is longer. */
const timeoutMs = 5_000;

export const isMark = (name: string): boolean => name === markName;

export interface MarkParts {
  readonly connection: Connection;
  readonly pools: Pools;
  readonly clock: Pick<Clock, 'sleep'>;
}

export const marksIn = (parts: MarkParts): readonly MarkedPlace[] =>
  parts.pools.configured.map((name) => markIn(parts, name));

function markIn({ connection, pools, clock }: MarkParts, name: PoolName): MarkedPlace {
  const { pool, namespace } = name;
  const place = namespace === '' ? `pool ${pool}` : `pool ${pool}, namespace ${namespace}`;
  const path = `${place} of cluster ${connection.id} at ${markName}`;

  /** Gives up after `timeoutMs`; the signal then aborts. */
  const ask = <T>(run: (pool: RadosPool, signal: AbortSignal) => Promise<T>): Promise<T> =>
    connection.attempt(async () => {
      const over = new AbortController();
      const giveUp = async (): Promise<never> => {
        await clock.sleep(timeoutMs, over.signal);
        throw new DataUnavailable(`${path} is not answered within ${timeoutMs / 1000} s`);
      };
      const asking = async (): Promise<T> => run((await pools.named(name)).pool, over.signal);
      try {
        return await Promise.race([asking(), giveUp()]);
      } finally {
        over.abort();
      }
    });

  return {
    cluster: connection.id,
    id: `${connection.id}/${pool}/${namespace}`,
    path,

    async read() {
      try {
        const text = new TextDecoder().decode(await ask(readAttribute));
        return { text, revision: text };
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },

    async write(text, former) {
      const bytes = new TextEncoder();
      const put = async (opened: RadosPool): Promise<void> => {
        const condition =
          former === undefined ? { isNew: true } : { isNew: false, expected: bytes.encode(former.revision) };
        const write = opened.write(markName, { ...condition, size: 0 });
        await write.run(bytes.encode(text)).catch((error: unknown) => {
          // Another gateway was first: what it wrote is compared.
          if (!isLost(error)) throw error;
        });
      };
      await ask(put);
    },
  };
}

async function readAttribute(pool: RadosPool, signal: AbortSignal): Promise<Uint8Array> {
  const { done, cancel } = pool.read(markName, new Uint8Array(0), { offset: 0, wantsAttribute: true });
  signal.addEventListener('abort', cancel, { once: true });
  return (await done).attribute ?? new Uint8Array(0);
}

const isLost = (error: unknown): boolean =>
  error instanceof RadosFailure && (error.code === errno.exists || error.code === errno.canceled);

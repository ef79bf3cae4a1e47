/** librados through koffi on Node, Bun and Deno (docs/adr, the RADOS driver). */

import { Lane } from '../reading/lane.ts';
import { Completions } from './completions.ts';
import { type ClusterAddress, errno, type RadosCluster, type RadosDriver, RadosFailure } from './driver.ts';
import { KoffiPool, type PoolParts } from './koffi-pool.ts';
import { later, loadLibrados, type Pointer } from './librados.ts';

/** Node's thread pool has four threads, which others need too; a cluster that hangs keeps a blocking call until its timeout. */
const blockingMax = 2;
/** librados counts what is under way, and blocks the caller beyond that: we bound it before. */
const neverBlocks = { objecter_inflight_ops: '1000000', objecter_inflight_op_bytes: String(2 ** 40) };
const quiet = { log_to_stderr: 'false', err_to_stderr: 'false', log_file: '', admin_socket: '' };

/** One for each process, which has one callback and shares its threads. */
export async function koffiDriver(): Promise<RadosDriver> {
  const native = await loadLibrados();
  const parts: PoolParts = {
    native,
    completions: new Completions(native),
    blocking: new Lane(blockingMax),
  };
  return { crc32c: native.crc32c, connect: (address) => connect(parts, address) };
}

const seconds = (ms: number): string => String(Math.max(1, Math.ceil(ms / 1000)));

async function connect(parts: PoolParts, address: ClusterAddress): Promise<RadosCluster> {
  const { lib } = parts.native;
  const slot = new BigUint64Array(new ArrayBuffer(8));
  check(`user ${address.user}`, lib.create(slot, 'ceph', address.user, 0));
  const cluster = slot[0] ?? null;
  try {
    if (address.conf !== undefined) check(`reading ${address.conf}`, lib.readConf(cluster, address.conf));
    const settings = {
      ...(address.monHosts === undefined ? {} : { mon_host: address.monHosts }),
      ...(address.keyring === undefined ? {} : { keyring: address.keyring }),
      rados_osd_op_timeout: seconds(address.opTimeoutMs),
      rados_mon_op_timeout: seconds(address.monTimeoutMs),
      client_mount_timeout: seconds(address.monTimeoutMs),
      ...neverBlocks,
      ...quiet,
    };
    for (const [name, value] of Object.entries(settings)) {
      check(`setting ${name}`, lib.setConf(cluster, name, value));
    }
    check('connecting', await parts.blocking.run(() => later(lib.connect, cluster)));
  } catch (error) {
    await later(lib.shutdown, cluster);
    throw error;
  }
  return new KoffiCluster(parts, cluster);
}

class KoffiCluster implements RadosCluster {
  readonly #parts: PoolParts;
  readonly #cluster: Pointer;
  readonly #pools: KoffiPool[] = [];

  constructor(parts: PoolParts, cluster: Pointer) {
    this.#parts = parts;
    this.#cluster = cluster;
  }

  async poolId(name: string): Promise<number | undefined> {
    const { native, blocking } = this.#parts;
    const id = Number(await blocking.run(() => later(native.lib.lookUpPool, this.#cluster, name)));
    if (id === -errno.missing) return undefined;
    check(`looking for pool ${name}`, id);
    return id;
  }

  async pool(id: number, namespace: string): Promise<KoffiPool> {
    const { native, blocking } = this.#parts;
    const { lib } = native;
    const slot = new BigUint64Array(new ArrayBuffer(8));
    // A pool that is not cached is looked up in the cluster.
    check(`opening pool ${id}`, await blocking.run(() => later(lib.openPool, this.#cluster, id, slot)));
    const io = slot[0] ?? null;
    if (namespace !== '') lib.setNamespace(io, namespace);
    const pool = new KoffiPool(this.#parts, io, namespace === '' ? `pool ${id}` : `pool ${id}/${namespace}`);
    this.#pools.push(pool);
    return pool;
  }

  async command(command: Readonly<Record<string, string>>): Promise<string> {
    const { native, blocking } = this.#parts;
    const { lib, text } = native;
    const [output, outputSize, status, statusSize] = [1, 1, 1, 1].map(
      (count) => new BigUint64Array(new ArrayBuffer(8 * count)),
    ) as [BigUint64Array, BigUint64Array, BigUint64Array, BigUint64Array];
    const texts = [JSON.stringify(command)];
    const code = await blocking.run(() =>
      later(lib.monCommand, this.#cluster, texts, 1, null, 0, output, outputSize, status, statusSize),
    );
    const said = output[0] === 0n ? '' : text(output[0] ?? null, Number(outputSize[0]));
    for (const buffer of [output[0], status[0]]) if (buffer !== 0n) lib.freeBuffer(buffer ?? null);
    check(`asking for ${command['prefix'] ?? 'something'}`, code);
    return said;
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close()));
    await later(this.#parts.native.lib.shutdown, this.#cluster);
  }
}

function check(what: string, code: number): void {
  if (code < 0) throw new RadosFailure(what, -code);
}

/** One pool, or a namespace in it, through librados. */
import { Semaphore } from '../../../base/mutex.ts';
import { blockBytes } from '../chunked/record.ts';
import {
  type ClusterAddress,
  errno,
  type RadosCluster,
  type RadosDriver,
  RadosFailure,
  type RadosPool,
  type RadosRead,
  type RadosWrite,
  type RadosWriteOptions,
} from './driver.ts';
import { type Librados, later, loadLibrados, type Native, type Pointer } from './librados.ts';

const namesPerPage = 1000;
const itemWords = 6;

interface PoolParts {
  readonly native: Native;
  readonly completions: Completions;
  /** Calls that block a thread of the runtime, which has few. */
  readonly blocking: Turns;
}

type Turns = Pick<Semaphore, 'run'>;

/**
 * The calls of one pool or cluster that block a thread. None begins once `close` was called, so that C gets no pointer that was
 * destroyed.
 */
class BlockingCalls {
  readonly #turns: Turns;
  readonly #running = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** @throws RadosFailure after `close` */
  assertOpen(what: string): void {
    if (this.#isClosed) throw new RadosFailure(what, errno.notConnected);
  }

  async run<T>(what: string, call: () => Promise<T>): Promise<T> {
    this.assertOpen(what);
    return this.#turns.run(async () => {
      this.assertOpen(what);
      const running = call();
      this.#running.add(running);
      try {
        return await running;
      } finally {
        this.#running.delete(running);
      }
    });
  }

  /** Waits for the calls that are under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#running);
  }
}

/** C writes these while an operation is under way, so they must stay where they are. */
const words = (count: number): BigUint64Array<ArrayBuffer> => new BigUint64Array(new ArrayBuffer(8 * count));

class KoffiPool implements RadosPool {
  readonly alignment: number;
  readonly #parts: PoolParts;
  readonly #io: Pointer;
  readonly #name: string;
  readonly #calls: BlockingCalls;
  /** Of walks that are under way. */
  readonly #cursors = new Set<Pointer>();
  #closing: Promise<void> | undefined;

  constructor(parts: PoolParts, io: Pointer, name: string) {
    this.#parts = parts;
    this.#calls = new BlockingCalls(parts.blocking);
    this.#io = io;
    this.#name = name;
    this.alignment = readAlignment(parts.native, io);
  }

  write(name: string, options: RadosWriteOptions): RadosWrite {
    const run = (begin: Start['begin']): Operation => this.#run(`write of ${name}`, [], begin);
    return new KoffiWrite({ lib: this.#parts.native.lib, io: this.#io, name, run }, options);
  }

  read(
    name: string,
    into: Uint8Array,
    { offset, wantsAttribute }: { readonly offset: number; readonly wantsAttribute: boolean },
  ): RadosRead {
    if (wantsAttribute) return this.#readAll(name, into, offset);
    const { lib } = this.#parts.native;
    const { done, cancel } = this.#run(`read of ${name}`, [into], (completion) =>
      lib.startRead(this.#io, name, completion, into, into.length, offset),
    );
    return { done: done.then((length) => ({ length })), cancel };
  }

  async attribute(name: string): Promise<Uint8Array> {
    const { attribute } = await this.#readAll(name, new Uint8Array(0), 0).done;
    return attribute;
  }

  #readAll(
    name: string,
    into: Uint8Array,
    offset: number,
  ): RadosRead & { readonly done: Promise<{ readonly length: number; readonly attribute: Uint8Array }> } {
    const { lib } = this.#parts.native;
    const [got, codes, iterator] = [words(1), words(2), words(1)];
    const op = lib.createRead();
    if (into.length > 0) lib.addRead(op, offset, into.length, into, got, codes.subarray(0, 1));
    lib.addGetAttributes(op, iterator, codes.subarray(1));
    const { done, cancel } = this.#run(`read of ${name}`, [into, got, codes, iterator], (completion) =>
      lib.startReadOp(op, this.#io, completion, name, 0),
    );
    const finish = async () => {
      try {
        await done;
        return { length: Number(got[0]), attribute: this.#attributeIn(iterator) };
      } finally {
        lib.endAttributes(iterator[0] ?? null);
        lib.releaseRead(op);
      }
    };
    return { done: finish(), cancel };
  }

  #attributeIn(iterator: BigUint64Array): Uint8Array {
    const { lib, text } = this.#parts.native;
    const [name, value, length] = [words(1), words(1), words(1)];
    while (lib.nextAttribute(iterator[0] ?? null, name, value, length) === 0 && name[0] !== 0n) {
      if (text(name[0] ?? null) !== attributeName) continue;
      const bytes = new Uint8Array(Number(length[0]));
      lib.copyMemory(bytes, value[0] ?? null, bytes.length);
      return bytes;
    }
    return new Uint8Array(0);
  }

  async remove(name: string): Promise<void> {
    const { lib } = this.#parts.native;
    const op = lib.createWrite();
    try {
      lib.addRemove(op);
      await this.#run(`removal of ${name}`, [], (completion) =>
        lib.startWrite(op, this.#io, completion, name, null, fullTry),
      ).done;
    } finally {
      lib.releaseWrite(op);
    }
  }

  async *names(): AsyncGenerator<readonly string[]> {
    const { lib } = this.#parts.native;
    const what = `listing ${this.#name}`;
    this.#calls.assertOpen(what);
    const end = this.#hold(lib.listEnd(this.#io));
    let cursor = this.#hold(lib.listBegin(this.#io));
    try {
      while (lib.isListEnd(this.#io, cursor) === 0) {
        const { found, next } = await this.#page(what, cursor, end);
        this.#free(cursor);
        cursor = next;
        yield found;
        this.#calls.assertOpen(what);
      }
    } finally {
      this.#free(cursor);
      this.#free(end);
    }
  }

  #hold(cursor: Pointer): Pointer {
    this.#cursors.add(cursor);
    return cursor;
  }

  /** Nothing where `close` has freed it. */
  #free(cursor: Pointer): void {
    if (this.#cursors.delete(cursor)) this.#parts.native.lib.freeCursor(this.#io, cursor);
  }

  async #page(
    what: string,
    start: Pointer,
    end: Pointer,
  ): Promise<{ readonly found: readonly string[]; readonly next: Pointer }> {
    const { lib, text } = this.#parts.native;
    const items = words(itemWords * namesPerPage);
    const next = words(1);
    const count = await this.#calls.run(what, () => {
      // It moves to where the page ended.
      next[0] = this.#hold(lib.listBegin(this.#io)) ?? 0n;
      return later(lib.list, this.#io, start, end, namesPerPage, null, 0, items, next);
    });
    if (count < 0) {
      this.#free(next[0] ?? null);
      throw new RadosFailure(what, -count);
    }
    const found = Array.from({ length: count }, (_, index) =>
      text(items[index * itemWords + 1] ?? null, Number(items[index * itemWords])),
    );
    lib.freeList(count, items);
    return { found, next: next[0] ?? null };
  }

  /** The first words are bytes, kilobytes and objects. */
  async stats(): Promise<{ readonly bytesUsed: number; readonly objects: number }> {
    const { lib } = this.#parts.native;
    const stats = words(16);
    const code = await this.#calls.run('pool stats', () => later(lib.statPool, this.#io, stats));
    if (code < 0) throw new RadosFailure('pool stats', -code);
    return { bytesUsed: Number(stats[1]) * 1024, objects: Number(stats[2]) };
  }

  #run(what: string, holds: readonly unknown[], begin: Start['begin']): Operation {
    const isClosed = (): boolean => this.#calls.isClosed;
    const start = { what: `${what} in ${this.#name}`, io: this.#io, holds, begin, isClosed };
    return this.#parts.completions.run(start);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Waits for pending operations, because librados hangs when a pool is closed during one. */
  async #close(): Promise<void> {
    const calls = this.#calls.close();
    await this.#parts.completions.drain(this.#io);
    await calls;
    for (const cursor of this.#cursors) this.#free(cursor);
    await later(this.#parts.native.lib.closePool, this.#io);
  }
}

/** From the map of the cluster, which is known once a pool is open. */
function readAlignment({ lib }: Native, io: Pointer): number {
  const [isRequired, bytes] = [new Int32Array(new ArrayBuffer(4)), words(1)];
  for (const code of [lib.requiresAlignment(io, isRequired), lib.requiredAlignment(io, bytes)]) {
    if (code < 0) throw new RadosFailure('the alignment of a pool', -code);
  }
  return isRequired[0] === 0 ? 1 : Math.max(1, Number(bytes[0]));
}

// A write that is collected in librados' own memory, and then executed.

const attributeName = 'sluice';
/** On a full cluster, refuses writes immediately and allows removals; without it both would wait for space. */
const fullTry = 64;
/** Written and read front to back, and never changed: the cluster then keeps a checksum of each block, not of each 4 KiB. */
const hints = 1 | 4 | 16 | 32;

/** How an attribute is compared. */
const isEqual = 1;

interface Target {
  readonly lib: Librados;
  readonly io: Pointer;
  readonly name: string;
  readonly run: (begin: (completion: Pointer) => number) => Operation;
}

class KoffiWrite implements RadosWrite {
  readonly #target: Target;
  readonly #op: Pointer;

  constructor(target: Target, { isNew, expected, size }: RadosWriteOptions) {
    const { lib } = target;
    this.#target = target;
    this.#op = lib.createWrite();
    if (expected !== undefined)
      lib.addCompareAttribute(this.#op, attributeName, isEqual, expected, expected.length);
    if (!isNew) return;
    lib.addCreate(this.#op, 1, null);
    if (size > blockBytes) lib.addHints(this.#op, size, blockBytes, hints);
  }

  add(bytes: Uint8Array, offset: number): void {
    this.#target.lib.addWrite(this.#op, bytes, bytes.length, offset);
  }

  async run(attribute?: Uint8Array): Promise<void> {
    const { lib, io, name, run } = this.#target;
    try {
      if (attribute !== undefined) lib.addSetAttribute(this.#op, attributeName, attribute, attribute.length);
      await run((completion) => lib.startWrite(this.#op, io, completion, name, null, fullTry)).done;
    } finally {
      this.drop();
    }
  }

  drop(): void {
    this.#target.lib.releaseWrite(this.#op);
  }
}

// librados through koffi on Node, Bun and Deno (docs/adr, the RADOS driver).

/** Node's thread pool has four threads, which others need too; a cluster that hangs keeps a blocking call until its timeout. */
const blockingMax = 2;
/** librados counts what is under way, and blocks the caller beyond that: we bound it before. */
const neverBlocks = { objecter_inflight_ops: '1000000', objecter_inflight_op_bytes: String(2 ** 40) };
const quiet = { log_to_stderr: 'false', err_to_stderr: 'false', log_file: '', admin_socket: '' };

/** One for each process, which has one callback and shares its threads. */
export async function koffiDriver(load: () => Promise<Native> = loadLibrados): Promise<RadosDriver> {
  const native = await load();
  const parts = { native, completions: new Completions(native) };
  const turns = new ClusterTurns();
  return {
    crc32c: native.crc32c,
    connect: (address) => connect({ ...parts, blocking: turns.of(address.id) }, address),
  };
}

/**
 * One call of a connection at a time, so that a cluster that hangs leaves a thread to the others. Those whose last call timed out have one
 * thread together, so that several of them leave one, too.
 */
class ClusterTurns {
  readonly #all = new Semaphore(blockingMax);
  readonly #ofSilent = new Semaphore(blockingMax - 1);
  /** Ids of clusters, also for later connections to them. */
  readonly #silent = new Set<string>();

  of(id: string): Turns {
    const own = new Semaphore(1);
    return {
      run: (work) =>
        own.run(() => {
          const call = () => this.#all.run(() => this.#watch(id, work));
          return this.#silent.has(id) ? this.#ofSilent.run(call) : call();
        }),
    };
  }

  async #watch<T>(id: string, work: () => Promise<T>): Promise<T> {
    const note = (code: unknown): void => {
      if (Number(code) === -errno.timedOut) this.#silent.add(id);
      else this.#silent.delete(id);
    };
    try {
      // What C returns is a code or a number of entries.
      const result = await work();
      note(result);
      return result;
    } catch (error) {
      note(error instanceof RadosFailure ? -error.code : undefined);
      throw error;
    }
  }
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
  readonly #calls: BlockingCalls;

  constructor(parts: PoolParts, cluster: Pointer) {
    this.#parts = parts;
    this.#calls = new BlockingCalls(parts.blocking);
    this.#cluster = cluster;
  }

  async poolId(name: string): Promise<number | undefined> {
    const { lib } = this.#parts.native;
    const what = `looking for pool ${name}`;
    const id = Number(await this.#calls.run(what, () => later(lib.lookUpPool, this.#cluster, name)));
    if (id === -errno.missing) return undefined;
    check(what, id);
    return id;
  }

  async pool(id: number, namespace: string): Promise<KoffiPool> {
    const { lib } = this.#parts.native;
    const slot = new BigUint64Array(new ArrayBuffer(8));
    const what = `opening pool ${id}`;
    return this.#calls.run(what, async () => {
      // A pool that is not cached is looked up in the cluster.
      check(what, await later(lib.openPool, this.#cluster, id, slot));
      const io = slot[0] ?? null;
      if (namespace !== '') lib.setNamespace(io, namespace);
      const name = namespace === '' ? `pool ${id}` : `pool ${id}/${namespace}`;
      const pool = new KoffiPool(this.#parts, io, name);
      this.#pools.push(pool);
      return pool;
    });
  }

  async command(command: Readonly<Record<string, string>>): Promise<string> {
    const { lib, text } = this.#parts.native;
    const [output, outputSize, status, statusSize] = [1, 1, 1, 1].map(
      (count) => new BigUint64Array(new ArrayBuffer(8 * count)),
    ) as [BigUint64Array, BigUint64Array, BigUint64Array, BigUint64Array];
    const texts = [JSON.stringify(command)];
    const what = `asking for ${command['prefix'] ?? 'something'}`;
    const code = await this.#calls.run(what, () =>
      later(lib.monCommand, this.#cluster, texts, 1, null, 0, output, outputSize, status, statusSize),
    );
    const said = output[0] === 0n ? '' : text(output[0] ?? null, Number(outputSize[0]));
    for (const buffer of [output[0], status[0]]) if (buffer !== 0n) lib.freeBuffer(buffer ?? null);
    check(what, code);
    return said;
  }

  async close(): Promise<void> {
    const calls = this.#calls.close();
    const closePools = () => Promise.all(this.#pools.map((pool) => pool.close()));
    await closePools();
    await calls;
    // Also those that were being opened.
    await closePools();
    await later(this.#parts.native.lib.shutdown, this.#cluster);
  }
}

function check(what: string, code: number): void {
  if (code < 0) throw new RadosFailure(what, -code);
}

/** The interval of the timer: short while operations complete, longer while none does. */
const [lookMsMin, lookMsMax] = [1, 16];

interface Operation {
  /** Its return value; rejected where that is an error. */
  readonly done: Promise<number>;
  cancel(): void;
}

interface Start {
  /** Describes the operation in errors. */
  readonly what: string;
  readonly io: Pointer;
  /** Memory that C reads or writes until the operation is done; the reference keeps it from the garbage collector. */
  readonly holds: readonly unknown[];
  /** Begins the operation that completes the completion. */
  readonly begin: (completion: Pointer) => number;
  /** Whether the pool is closed: it begins nothing more. */
  readonly isClosed: () => boolean;
}

const failedOperation = (what: string, code: number): Operation => ({
  done: Promise.reject(new RadosFailure(what, code)),
  cancel: () => {},
});

interface Running {
  readonly start: Start;
  readonly settle: (code: number) => void;
}

/**
 * The operations under way. One thread of the runtime waits for one of them; others that are done by then are settled together with it,
 * so that many small operations share one wake-up of the event loop. A timer polls too, because the operation that the thread waits
 * for may be on a cluster that hangs.
 */
class Completions {
  readonly #native: Native;
  /** By completion, the oldest first. */
  readonly #running = new Map<bigint, Running>();
  readonly #slot = new BigUint64Array(new ArrayBuffer(8));
  /** The completion that a thread waits for: it must not be released before that thread is back. */
  #awaited: bigint | undefined;

  constructor(native: Native) {
    this.#native = native;
  }

  run(start: Start): Operation {
    const { lib } = this.#native;
    if (start.isClosed()) return failedOperation(start.what, errno.notConnected);
    lib.createCompletion(null, null, this.#slot);
    const completion = this.#slot[0] ?? 0n;
    const refused = start.begin(completion);
    if (refused < 0) {
      lib.releaseCompletion(completion);
      return failedOperation(start.what, -refused);
    }
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const settle = (code: number): void => {
      // The connection is given up already: another `shutDown` would end the next one.
      const isKnown = -code === errno.shutDown && start.isClosed();
      if (code < 0) reject(new RadosFailure(start.what, isKnown ? errno.notConnected : -code));
      else resolve(code);
    };
    this.#running.set(completion, { start, settle });
    if (this.#awaited === undefined) void this.#wait(completion);
    const running = this.#running.get(completion);
    return { done: promise, cancel: () => this.#cancel(completion, running) };
  }

  /** Cancels all that is under way on a pool; settled when nothing is any more. */
  async drain(io: Pointer): Promise<void> {
    const running = [...this.#running].filter(([, { start }]) => start.io === io);
    for (const [completion, each] of running) this.#cancel(completion, each);
    while (running.some(([completion, each]) => this.#running.get(completion) === each)) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  #cancel(completion: bigint, running: Running | undefined): void {
    // Its address may belong to a later operation by now.
    if (running !== undefined && this.#running.get(completion) === running) {
      this.#native.lib.cancel(running.start.io, completion);
    }
  }

  async #wait(first: bigint): Promise<void> {
    let timer = this.#lookAfter(lookMsMin);
    for (let next: bigint | undefined = first; next !== undefined; ) {
      this.#awaited = next;
      await later(this.#native.lib.awaitCompletion, next);
      this.#awaited = undefined;
      this.#reap();
      timer.stop();
      next = this.#running.keys().next().value;
      if (next !== undefined) timer = this.#lookAfter(lookMsMin);
    }
  }

  #lookAfter(ms: number): { stop(): void } {
    let timer: ReturnType<typeof setTimeout>;
    const look = (after: number): void => {
      timer = setTimeout(() => look(this.#reap() > 0 ? lookMsMin : Math.min(2 * after, lookMsMax)), after);
    };
    look(ms);
    return { stop: () => clearTimeout(timer) };
  }

  /** @returns how many were done */
  #reap(): number {
    const { lib } = this.#native;
    let done = 0;
    for (const [completion, { settle }] of this.#running) {
      if (completion === this.#awaited || lib.isComplete(completion) === 0) continue;
      const code = lib.returnValue(completion);
      lib.releaseCompletion(completion);
      this.#running.delete(completion);
      settle(code);
      done += 1;
    }
    return done;
  }
}

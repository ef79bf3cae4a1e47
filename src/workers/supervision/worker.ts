/** A background worker: it does one bounded unit of work at a time. */

/** Does one bounded unit; 'busy' if there is more to do now. Ends early when the signal aborts. */
export type Unit = (signal: AbortSignal) => Promise<'busy' | 'idle'>;

export interface Worker {
  readonly name: string;
  /** Leader-elected on `<name>-leader`. `gc` is not: it leases its slots itself. */
  readonly leased: boolean;
  /** The rest after an idle unit, in ms. */
  readonly everyMs: number;
  /**
   * Called for every run, so that a panic leaves no state behind in memory.
   * @param generation of the lease that it runs under, the fencing token of its writes; 0 without a lease
   */
  start(generation: number): Unit;
}

/** Thrown by a unit that works on several shards, so that the panic is counted for the right one. */
export class ShardPanic extends Error {
  readonly shard: string;
  constructor(shard: string, cause: unknown) {
    super(`shard ${shard} failed`, { cause });
    this.shard = shard;
  }
}

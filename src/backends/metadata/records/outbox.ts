/**
 * The journal of side changes between stores that share the partitions of one gateway (docs/adr/0049). A commit writes its side changes of
 * other stores into the outbox of its own store, in its own transaction. Then the store sends them, in the order of their commits, and
 * removes each entry that the receiver has confirmed. An entry has the revision of its commit as number, and the
 * receiver keeps the number of the last entry of each sender, so it applies each one once, however often it arrives.
 *
 * The commit returns when the others have its side changes. Where one cannot be reached, the entries stay, the commit's outcome is unknown
 * to its caller, and the store answers no read and no write before it has sent them. So a caller sees a commit without
 * its side changes only while they are sent for the first time.
 */
import { type AnyTable, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { compareBytes } from '../key-order.ts';
import type { StoredRow } from '../row-codec.ts';
import { keyIn, space } from './codec.ts';
import type { OrderedStore, Submit } from './ordered-store.ts';

/** A side change whose key and row are encoded. Neither `put` nor `by`: it removes the row. */
export interface EncodedChange {
  readonly table: string;
  readonly key: Uint8Array;
  readonly put?: StoredRow;
  readonly by?: Readonly<Record<string, number>>;
}

/** The side changes of one commit for one store. */
export interface OutboxEntry {
  /** Ascending from one sender to one receiver. */
  readonly number: number;
  readonly changes: readonly EncodedChange[];
}

export interface OutboxPorts {
  readonly store: OrderedStore;
  readonly submit: Submit;
  /** Resolves when the other store has applied the entries, durably. */
  send(target: number, entries: readonly OutboxEntry[]): Promise<void>;
}

/** Entries of one message; the side changes of a commit are below `commitLimits.bytes`. */
const entriesMax = 64;
/** A message without an answer is sent again, with what follows it. */
const answerMs = 10_000;

const keyFor = (name: 'outbox' | 'inbox', other: number, number?: number): Uint8Array => {
  const rest = new Uint8Array(number === undefined ? 2 : 10);
  const view = new DataView(rest.buffer);
  view.setUint16(0, other);
  if (number !== undefined) view.setBigUint64(2, BigInt(number));
  return keyIn(name, rest);
};

export const outboxKey = (target: number, number: number): Uint8Array => keyFor('outbox', target, number);
const outboxEnd = Uint8Array.of(space.outbox + 1);
/** Under it is the number of the last entry of a sender. */
export const inboxKey = (sender: number): Uint8Array => keyFor('inbox', sender);

export class Outbox {
  readonly #ports: OutboxPorts;
  readonly #rounds = new Map<number, Promise<void>>();
  /** The stores for which entries are left from before this one started, or from an error. */
  readonly #unconfirmed = new Set<number>();

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
    for (const target of this.#targets()) this.#unconfirmed.add(target);
  }

  /** Sends the entries of a commit. @throws StoreUnavailable where another store did not confirm them; the next call sends them again */
  async settle(target: number, upTo: number): Promise<void> {
    while ((this.#findNumber(target, 'first') ?? Number.POSITIVE_INFINITY) <= upTo) await this.#round(target);
  }

  /**
   * Sends what was there at the call.
   * @param except a store that takes nothing yet
   * @param before entries from this number on are left
   */
  async settleAll({
    except,
    before,
  }: {
    readonly except?: number;
    readonly before?: number | undefined;
  } = {}): Promise<void> {
    const targets = this.#targets().filter((target) => target !== except);
    await Promise.all(targets.map((target) => this.settleTarget(target, before)));
  }

  /** Sends to one store what was there at the call. */
  settleTarget(target: number, before = Number.POSITIVE_INFINITY): Promise<void> {
    return this.settle(target, Math.min(this.#findNumber(target, 'last') ?? 0, before - 1));
  }

  /** Whether every entry was confirmed. */
  isEmpty(): boolean {
    return this.#targets().length === 0;
  }

  /** Call it before each read and write: it does nothing unless entries could not be sent. */
  async catchUp(): Promise<void> {
    if (this.#unconfirmed.size === 0) return;
    for (const target of [...this.#unconfirmed]) {
      await this.settleTarget(target);
      this.#unconfirmed.delete(target);
    }
  }

  /** Returns false only when every side change of the applied commits that matches has been confirmed. */
  async isPending(matches: (change: EncodedChange) => boolean): Promise<boolean> {
    await this.settleAll().catch(() => undefined);
    return this.#targets().some((target) =>
      this.#read(target, { limit: Number.POSITIVE_INFINITY }).some(({ changes }) => changes.some(matches)),
    );
  }

  /** The stores for which there are entries. */
  #targets(): readonly number[] {
    const targets: number[] = [];
    for (let next = 0; ; next = (targets.at(-1) as number) + 1) {
      let found: number | undefined;
      const span = { low: outboxKey(next, 0), high: outboxEnd, reverse: false };
      this.#ports.store.read(span, (key) => {
        found = new DataView(key.buffer, key.byteOffset).getUint16(1);
        return false;
      });
      if (found === undefined) return targets;
      targets.push(found);
    }
  }

  #round(target: number): Promise<void> {
    let round = this.#rounds.get(target);
    if (round === undefined) {
      round = this.#send(target).finally(() => this.#rounds.delete(target));
      this.#rounds.set(target, round);
    }
    return round;
  }

  async #send(target: number): Promise<void> {
    const { store, submit, send } = this.#ports;
    const entries = this.#read(target, { limit: entriesMax });
    try {
      await inTime(send(target, entries));
    } catch (cause) {
      this.#unconfirmed.add(target);
      throw new StoreUnavailable(`shard ${target} did not confirm side changes`, { cause });
    }
    await submit(
      () => {
        for (const { number } of entries) store.remove(outboxKey(target, number));
      },
      { frees: true },
    );
  }

  #findNumber(target: number, which: 'first' | 'last'): number | undefined {
    return this.#read(target, { limit: 1, reverse: which === 'last' })[0]?.number;
  }

  #read(
    target: number,
    { limit, reverse = false }: { readonly limit: number; readonly reverse?: boolean },
  ): readonly OutboxEntry[] {
    const { store } = this.#ports;
    const entries: OutboxEntry[] = [];
    const span = { low: outboxKey(target, 0), high: outboxKey(target + 1, 0), reverse };
    store.read(span, (key, changes) => {
      const number = Number(new DataView(key.buffer, key.byteOffset).getBigUint64(3));
      return entries.push({ number, changes: changes as readonly EncodedChange[] }) < limit;
    });
    return entries;
  }
}

/** Rejects where another store has not answered in time: the connection may be lost without notice. */
export async function inTime<Answer>(sent: Promise<Answer>): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${answerMs} ms`)), answerMs);
  });
  return Promise.race([sent, late]).finally(() => clearTimeout(timer));
}

/** Matches additions to a partition of a counter table. @param partition its key */
export const addsTo =
  (table: AnyTable, partition: Uint8Array) =>
  ({ table: name, key, by }: EncodedChange): boolean =>
    by !== undefined &&
    name === table.name &&
    compareBytes(key.subarray(0, partition.length), partition) === 0;

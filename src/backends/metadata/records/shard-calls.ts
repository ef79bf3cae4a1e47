/**
 * The calls of the record layer over several stores: each goes to the store that has its partition (`placement.ts`),
 * and those about a spread partition to all of them.
 *
 * A store that has split refuses callers whose placement is older. Then the placement is read from store 0 again, and the call is repeated.
 *
 * Epochs are in every store, because a commit reads its epoch in its own transaction. Their leases are in store 0 alone: a sweep marks an
 * epoch there first and then removes it from the others, where a missing epoch refuses commits.
 */
import type { Clock } from '../../../ports/clock.ts';
import type { AnyTable, At } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, compareBytes, passed, type Span } from '../key-order.ts';
import { changedRow } from '../rules.ts';
import { findStore, hashRow, initialPlacement, isSpread, type Placement } from './placement.ts';
import {
  callsOver,
  type GatewayCalls,
  type RecordCalls,
  type SendCall,
  type SentPartition,
  type SentSideChange,
  tableFinder,
} from './remote.ts';
import { staleMessage } from './shard-split.ts';
import type { ReadSpan } from './store.ts';

export interface ShardOptions {
  /** The number of stores at first. */
  readonly count: number;
  readonly tables: readonly AnyTable[];
  /** The life of an intent without a renewal. */
  readonly intentTtlMs: number;
  readonly clock: Pick<Clock, 'sleep'>;
}

/** Sends a call to the store of a number, with the version of the placement by which it was chosen. */
export type SendToShard = (
  shard: number,
  name: keyof RecordCalls,
  args: readonly unknown[],
  version: number,
) => Promise<unknown>;

type Page = ReadSpan<AnyTable>;

/** How the stores of a partition are reached. */
interface Routes {
  /** The number of stores with rows. */
  readonly count: number;
  readonly first: RecordCalls;
  /** Every other store that has epochs. */
  readonly others: readonly RecordCalls[];
  /** Every store that has rows. */
  readonly all: readonly RecordCalls[];
  atOf(partition: SentPartition): At<AnyTable>;
  /** The store of a row; of any, where the partition is not spread. */
  to(partition: SentPartition, key?: object): RecordCalls;
  /** The stores that have rows of a partition. */
  storesWith(partition: SentPartition): readonly RecordCalls[];
}

function openRoutes(
  send: SendToShard,
  { placement, tableOf }: { readonly placement: Placement; readonly tableOf: (name: string) => AnyTable },
): Routes {
  const { version, shards } = placement;
  const decodePlace = ({ table, ...rest }: SentPartition): At<AnyTable> =>
    ({ ...rest, table: tableOf(table) }) as At<AnyTable>;
  const known = shards.map(({ number }) =>
    callsOver<RecordCalls>((name, args) => send(number, name, args, version)),
  );
  const all = known.filter((_, index) => shards[index]?.splitsFrom === undefined);
  const to: Routes['to'] = (partition, key) =>
    known[findStore(placement, hashRow(decodePlace(partition), key as Columns | undefined))] as RecordCalls;
  const storesWith: Routes['storesWith'] = (partition) =>
    isSpread(decodePlace(partition)) ? all : [to(partition)];
  const [first] = known as [RecordCalls];
  return { count: all.length, first, others: known.slice(1), all, atOf: decodePlace, to, storesWith };
}

const repetitionsMax = 20;
/** Before a call is repeated that a store has refused although the placement is the latest one. */
const pauseMs = 50;

/** The calls by their names, with the arguments of the functions of the same names. */
type Calls = Readonly<Record<string, (...args: readonly unknown[]) => Promise<unknown>>>;

/** What a placement decides: where each call goes. */
interface Routed {
  readonly to: Routes['to'];
  readonly calls: Calls;
}

/** The placement as far as it is known, and calls by it. */
class Router {
  readonly #send: SendToShard;
  readonly #options: ShardOptions;
  readonly #tableOf: (name: string) => AnyTable;
  #placement: Placement;
  #routed: Routed;
  #reading: Promise<Placement> | undefined;

  constructor(send: SendToShard, options: ShardOptions) {
    this.#send = send;
    this.#options = options;
    this.#tableOf = tableFinder(options.tables);
    this.#placement = initialPlacement(options.count);
    this.#routed = this.#open();
  }

  #open(): Routed {
    const routes = openRoutes(this.#send, { placement: this.#placement, tableOf: this.#tableOf });
    const calls = {
      ...routeRows(routes),
      ...routeEpochs(routes, this.#options.intentTtlMs),
      ...routeWhole(routes),
    };
    // The cast: a call has the name and the arguments of one of these functions.
    return { to: routes.to, calls: calls as object as Calls };
  }

  /** Repeats a call that a store refused because of the placement: it has changed nothing there. */
  async run<Result>(call: (routed: Routed) => Promise<Result>): Promise<Result> {
    for (let repeated = 0; ; repeated += 1) {
      const { version } = this.#placement;
      try {
        return await call(this.#routed);
      } catch (cause) {
        if (!String(cause).includes(staleMessage) || repeated === repetitionsMax) throw cause;
      }
      await this.#refresh(version);
      if (this.#placement.version === version) await this.#options.clock.sleep(pauseMs);
    }
  }

  async #refresh(version: number): Promise<void> {
    if (this.#placement.version > version) return;
    this.#reading ??= (this.#send(0, 'placement', [], this.#placement.version) as Promise<Placement>).finally(
      () => {
        this.#reading = undefined;
      },
    );
    const latest = await this.#reading;
    if (latest.version <= this.#placement.version) return;
    this.#placement = latest;
    this.#routed = this.#open();
  }
}

/** Waits for all answers, also after a refusal: a call that is repeated must not meet its own earlier messages. */
async function each<Result>(
  stores: readonly RecordCalls[],
  call: (store: RecordCalls) => Promise<Result>,
): Promise<Result[]> {
  const answers = await Promise.allSettled(stores.map(call));
  return answers.map((answer) => {
    if (answer.status === 'rejected') throw answer.reason;
    return answer.value;
  });
}

const routeRows = ({ count, all, atOf, to, storesWith }: Routes) =>
  ({
    get: (partition, key) => to(partition, key).get(partition, key),
    async page(partition, span, requested) {
      if (!isSpread(atOf(partition))) return to(partition).page(partition, span, requested);
      // Keys are spread evenly, so a store has about its share of the rows.
      const share = Math.min(requested.count, Math.ceil((requested.count / count) * 1.2) + 2);
      const pages = await each(all, (store) => store.page(partition, span, { ...requested, count: share }));
      return mergePages(atOf(partition), { pages, span, count: requested.count }) as never;
    },
    commit(partition, changes, options) {
      const [change] = changes;
      return to(partition, change && changedRow(change)).commit(partition, changes, options);
    },
    async clear(partition, range) {
      await each(storesWith(partition), (store) => store.clear(partition, range));
    },
    async fence(partition) {
      return Math.min(...(await each(storesWith(partition), (store) => store.fence(partition))));
    },
    async raiseFence(partition, generation) {
      await each(storesWith(partition), (store) => store.raiseFence(partition, generation));
    },
    pendingAdditions: async (partition) =>
      (await each(all, (store) => store.pendingAdditions(partition))).includes(true),
    pendingPuts: async (name) => (await each(all, (store) => store.pendingPuts(name))).includes(true),
  }) satisfies Partial<GatewayCalls>;

const routeEpochs = ({ first, others }: Routes, intentTtlMs: number) =>
  ({
    async openEpoch(epoch) {
      // Before the lease begins, so that the limit below cannot be later than half of the lease.
      const now = await first.now();
      const opened = await first.openEpoch(epoch);
      // Half of the lease is more than the clocks of two stores differ by.
      await each(others, (store) => store.openEpoch(opened, now + intentTtlMs / 2));
      return opened;
    },
    async removeEpoch(epoch) {
      await each(others, (store) => store.removeEpoch(epoch));
      await first.removeEpoch(epoch);
    },
    renewEpochs: (epochs) => first.renewEpochs(epochs),
    async abort(opId) {
      await each([first, ...others], (store) => store.abort(opId));
    },
    // A sweep takes the epoch in the first store before it has barred it in the others.
    isOpen: async (opId) =>
      (await first.isOpen(opId)) || (await each(others, (store) => store.isOpen(opId))).includes(true),
    async abandoned() {
      const found = await first.abandoned();
      const epochs = found.map(({ prefix }) => prefix.slice(0, -1));
      if (epochs.length > 0) await each(others, (store) => store.barEpochs(epochs));
      return found;
    },
    settle: (intent) => first.settle(intent),
  }) satisfies Partial<GatewayCalls>;

const routeWhole = ({ count, first, others, all }: Routes) =>
  ({
    async everyRow(name, position = '0:') {
      const [number = '0', within = ''] = position.split(':');
      for (let shard = Number(number), after = within; shard < count; shard += 1, after = '') {
        const page = await (all[shard] as RecordCalls).everyRow(name, after === '' ? undefined : after);
        if (page !== undefined) return { ...page, position: `${shard}:${page.position ?? ''}` };
      }
      return undefined;
    },
    now: () => first.now(),
    async health() {
      const found = await each([first, ...others], (store) => store.health());
      return {
        nodes: found.flatMap(({ nodes }, shard) =>
          nodes.map((node) => ({ ...node, name: `shard ${shard}` })),
        ),
        warnings: found.flatMap(({ warnings }) => warnings),
      };
    },
  }) satisfies Partial<GatewayCalls>;

/** @returns what `remoteRecords` takes */
export function shardCalls(send: SendToShard, options: ShardOptions): SendCall {
  const router = new Router(send, options);
  /** An addition is not repeated where one of several stores has refused: each store has its own repetitions. */
  const apply = async (changes: readonly SentSideChange[]): Promise<void> => {
    await router.run(async ({ to }) => {
      const groups = Map.groupBy(changes, (change) => to(change.at, changedRow(change as never)));
      if (groups.size > 1) await Promise.all([...groups.values()].map(apply));
      else for (const [store, group] of groups) await store.apply(group);
    });
  };
  return (name, args) =>
    name === 'apply'
      ? apply(args[0] as readonly SentSideChange[])
      : router.run(({ calls }) => (calls[name] as Calls[string])(...args));
}

interface Merging {
  /** Of each store, from the beginning of the span. */
  readonly pages: readonly Page[];
  readonly span: Span;
  readonly count: number;
}

/** The rows up to the first one at which a store's page ends, because rows of that store may follow it. */
function mergePages(at: At<AnyTable>, { pages, span, count }: Merging): Page {
  const order = buildOrder(at.table);
  const compare = (a: Uint8Array, b: Uint8Array): number =>
    span.reverse ? compareBytes(b, a) : compareBytes(a, b);
  const keyed = pages.map(({ rows }) =>
    rows.map((stored) => ({ stored, key: order.rowKey(at.in as Columns, stored.row as Columns) })),
  );
  const ends = pages.flatMap(({ rest }, index) => {
    const last = keyed[index]?.at(-1);
    return compareBytes(rest.low, rest.high) < 0 && last !== undefined ? [last.key] : [];
  });
  const end = ends.sort(compare)[0];
  const rows = keyed
    .flat()
    .sort((a, b) => compare(a.key, b.key))
    .filter(({ key }) => end === undefined || compare(key, end) <= 0);
  const taken = rows.slice(0, count);
  const last = taken.at(-1);
  const isAll = end === undefined && taken.length === rows.length;
  return {
    rows: taken.map(({ stored }) => stored),
    rest: isAll || last === undefined ? { ...span, low: span.high } : passed(span, last.key),
  };
}

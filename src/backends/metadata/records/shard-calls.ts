/**
 * The calls of the record layer over several stores: each goes to the store that has its partition (`placement.ts`), and those about a spread
 * partition to all of them.
 *
 * Epochs are in every store, because a commit reads its epoch in its own transaction. Their leases are in store 0 alone: a sweep marks an
 * epoch there first and then removes it from the others, where a missing epoch refuses commits.
 */
import type { AnyTable, At } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, compareBytes, passed, type Span } from '../key-order.ts';
import { keyOf } from '../rules.ts';
import { findShard, isSpread } from './placement.ts';
import {
  callsOver,
  type GatewayCalls,
  type RecordCalls,
  type SendCall,
  type SentPartition,
  tableFinder,
} from './remote.ts';
import type { ReadSpan } from './store.ts';

export interface ShardOptions {
  /** The number of stores. */
  readonly count: number;
  readonly tables: readonly AnyTable[];
  /** The life of an intent without a renewal. */
  readonly intentTtlMs: number;
}

/** Sends a call to the store of a number. */
export type SendToShard = (shard: number, ...call: Parameters<SendCall<RecordCalls>>) => Promise<unknown>;

type Page = ReadSpan<AnyTable>;

/** How the stores of a partition are reached. */
interface Routes {
  readonly count: number;
  readonly first: RecordCalls;
  readonly others: readonly RecordCalls[];
  readonly all: readonly RecordCalls[];
  atOf(partition: SentPartition): At<AnyTable>;
  /** The store of a row; of any, where the partition is not spread. */
  to(partition: SentPartition, key?: object): RecordCalls;
  /** The stores that have rows of a partition. */
  storesWith(partition: SentPartition): readonly RecordCalls[];
}

function openRoutes(send: SendToShard, { count, tables }: Omit<ShardOptions, 'intentTtlMs'>): Routes {
  const tableOf = tableFinder(tables);
  const atOf = ({ table, ...rest }: SentPartition): At<AnyTable> =>
    ({ ...rest, table: tableOf(table) }) as At<AnyTable>;
  const all = Array.from({ length: count }, (_, shard) =>
    callsOver<RecordCalls>((name, args) => send(shard, name, args)),
  );
  const to: Routes['to'] = (partition, key) =>
    all[findShard(atOf(partition), key as Columns | undefined, count)] as RecordCalls;
  const storesWith: Routes['storesWith'] = (partition) => (isSpread(atOf(partition)) ? all : [to(partition)]);
  return { count, first: all[0] as RecordCalls, others: all.slice(1), all, atOf, to, storesWith };
}

const each = <Result>(
  stores: readonly RecordCalls[],
  call: (store: RecordCalls) => Promise<Result>,
): Promise<Result[]> => Promise.all(stores.map(call));

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
      return to(partition, change && keyOf(change)).commit(partition, changes, options);
    },
    async apply(changes) {
      const groups = Map.groupBy(changes, (change) => to(change.at, keyOf(change as never)));
      await Promise.all([...groups].map(([store, group]) => store.apply(group)));
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

const routeEpochs = ({ first, others, all }: Routes, intentTtlMs: number) =>
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
      await each(all, (store) => store.abort(opId));
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

const routeWhole = ({ count, first, all }: Routes) =>
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
      const found = await each(all, (store) => store.health());
      return {
        nodes: found.flatMap(({ nodes }, shard) =>
          nodes.map((node) => ({ ...node, name: `shard ${shard}` })),
        ),
        warnings: found.flatMap(({ warnings }) => warnings),
      };
    },
  }) satisfies Partial<GatewayCalls>;

/** @returns what `remoteRecords` takes */
export function shardCalls(send: SendToShard, { intentTtlMs, ...stores }: ShardOptions): SendCall {
  const routes = openRoutes(send, stores);
  const calls: GatewayCalls = {
    ...routeRows(routes),
    ...routeEpochs(routes, intentTtlMs),
    ...routeWhole(routes),
  };
  return (name, args) => (calls[name] as (...args: readonly unknown[]) => Promise<unknown>)(...args);
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

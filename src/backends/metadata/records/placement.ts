/**
 * Which of several stores has a row: each partition is in one of them, and a spread partition has each of its keys in one.
 *
 * A store has a slot: the hashes that leave `residue` when divided by `modulus`. A gateway begins with `count` stores,
 * whose slots are `n` of
 * `count`. A store that splits keeps one half of its slot, `residue` of `2 * modulus`, and a new store gets the other.
 * So a hash that has left a store is always found below it, in the stores that it or they split off.
 */
import { fnv32a, mixBits } from '../../../base/shard.ts';
import type { AnyTable, At } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, keyText } from '../key-order.ts';

/** A store and how many there were at first. */
export interface ShardPlace {
  /** From 0. One that was split off has a number from `count` on. */
  readonly number: number;
  readonly count: number;
}

/** The hashes of the rows of a store. */
export interface Slot {
  readonly residue: number;
  readonly modulus: number;
}

export interface Shard extends Slot {
  readonly number: number;
  /** The store whose half it is to take. It has epochs already, and no rows that a gateway may read. */
  readonly splitsFrom?: number;
}

/** The table of stores, which store 0 keeps. Each change of it has the next version. */
export interface Placement {
  readonly version: number;
  readonly shards: readonly Shard[];
}

export const initialPlacement = (count: number): Placement => ({
  version: 0,
  shards: Array.from({ length: count }, (_, number) => ({ number, residue: number, modulus: count })),
});

/** More stores make each listing and each new epoch slower, because they ask all of them. */
const shardsMax = 128;

export const isIn = ({ residue, modulus }: Slot, hash: number): boolean => hash % modulus === residue;

/** @returns the half that stays and the half that leaves */
export const halve = ({ residue, modulus }: Slot): readonly [Slot, Slot] => [
  { residue, modulus: 2 * modulus },
  { residue: residue + modulus, modulus: 2 * modulus },
];

/** The number of the store that gateways find a hash in. */
export function findStore({ shards }: Placement, hash: number): number {
  const found = shards.find((shard) => shard.splitsFrom === undefined && isIn(shard, hash));
  if (found === undefined) throw new Error(`no store has the hash ${hash}`);
  return found.number;
}

/**
 * The placement with a store that splits, and the number of the new one. Repeating it changes nothing. @returns
 * undefined where there are too many
 */
export function addShard(
  placement: Placement,
  from: number,
): { readonly placement: Placement; readonly number: number } | undefined {
  const { version, shards } = placement;
  const begun = shards.find(({ splitsFrom }) => splitsFrom === from);
  if (begun !== undefined) return { placement, number: begun.number };
  const parent = shards.find((shard) => shard.number === from && shard.splitsFrom === undefined);
  if (parent === undefined) throw new Error(`store ${from} has no rows to split`);
  if (shards.length >= shardsMax || parent.modulus >= 2 ** 31) return undefined;
  const added = { number: shards.length, ...halve(parent)[1], splitsFrom: from };
  return { placement: { version: version + 1, shards: [...shards, added] }, number: added.number };
}

/** The placement in which a new store has its half. Repeating it changes nothing. */
export function publishShard(placement: Placement, number: number): Placement {
  const { version, shards } = placement;
  const from = shards.find((shard) => shard.number === number)?.splitsFrom;
  if (from === undefined) return placement;
  return {
    version: version + 1,
    shards: shards.map((shard) => {
      if (shard.number === number) return { number, residue: shard.residue, modulus: shard.modulus };
      return shard.number === from ? { ...shard, ...halve(shard)[0] } : shard;
    }),
  };
}

/**
 * Whether partitions of a table can be in several stores. The index of uploads has a spread column too, and each of its
 * partitions is in one.
 */
export const canSpread = ({ spreadBy, kind }: AnyTable): boolean =>
  spreadBy !== undefined && kind === 'conditional';

/** Whether the rows of a partition are in all stores. The number of its shards does not matter, so it can be changed. */
export const isSpread = ({ table, ways = 1 }: At<AnyTable>): boolean => canSpread(table) && ways > 1;

const hashText = (text: string): number =>
  // The low bits of FNV-1a are poor for texts that differ in their last characters, as slots do.
  mixBits(fnv32a(text));

/** The hash of a row. @param row its key; may be absent where the partition is not spread */
export function hashRow(at: At<AnyTable>, row: Columns | undefined): number {
  const partition = keyText(buildOrder(at.table).partitionKey(at.in as Columns));
  return hashText(
    isSpread(at) && row !== undefined ? `${partition}${row[at.table.spreadBy as string]}` : partition,
  );
}

/** The hash of a stored row. @param isWhole whether its partition is not spread, although its table can be */
export function hashKey(
  table: AnyTable,
  key: Uint8Array,
  isWhole: (partition: Uint8Array) => boolean,
): number {
  const order = buildOrder(table);
  const columns = order.columnsOf(key);
  const partition = order.partitionKey(columns);
  const text = keyText(partition);
  return hashText(
    canSpread(table) && !isWhole(partition) ? `${text}${columns[table.spreadBy as string]}` : text,
  );
}

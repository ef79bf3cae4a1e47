/**
 * The rules for callers of the metadata port: every backend asserts them, so that a mistake fails on the first backend that a test uses
 * and not only on the strictest one in production.
 */
import {
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  commitLimits,
  RowTooLong,
  rowBytes,
  type SideChange,
  type TableKind,
} from '../../ports/metadata-store.ts';
import { type Columns, compareBytes } from './key-order.ts';

type AnyChange = Change<AnyTable>;

export function assertCommit(
  at: At<AnyTable>,
  changes: readonly AnyChange[],
  { op, then = [] }: CommitOptions,
): void {
  assertTable(at.table, at.table.kind !== 'counter', 'takes no commit, only side changes that add');
  const isBound = at.fence !== undefined || op !== undefined;
  assertTable(at.table, at.table.kind === 'conditional' || !isBound, 'is plain: no fence and no op bars it');
  if (changes.length > commitLimits.changes) {
    throw new Error(`a commit takes ${commitLimits.changes} changes, not ${changes.length}`);
  }
  let bytes = 0;
  for (const change of changes) {
    assertExpectation(at.table, change);
    if ('put' in change) bytes += assertRow(at, change.put as Columns);
  }
  assertOneSpreadValue(at, changes);
  for (const change of then) bytes += assertSideChange(change);
  if (bytes > commitLimits.bytes) {
    throw new Error(`a commit takes ${commitLimits.bytes} bytes of rows, not ${bytes}`);
  }
}

export function assertSideChanges(changes: readonly SideChange[]): void {
  for (const change of changes) assertSideChange(change);
}

export function assertUpdate(at: At<AnyTable>): void {
  assertTable(at.table, at.table.kind === 'conditional', 'is not conditional: update compares and sets');
  if (at.fence !== undefined) throw new Error('an update carries no fence: commit does');
}

export function assertClear(at: At<AnyTable>): void {
  assertTable(at.table, at.table.kind === 'plain', 'is not plain: only a finished range of one is cleared');
}

function assertTable(table: AnyTable, holds: boolean, fault: string): void {
  if (!holds) throw new Error(`${table.name} ${fault}`);
}

function assertExpectation(table: AnyTable, change: AnyChange): void {
  const kind: TableKind = table.kind;
  if ('check' in change) {
    assertTable(table, kind === 'conditional', 'is not conditional: nothing on it can be checked');
  }
  if ((kind === 'plain') !== (change.expect === 'any')) {
    throw new Error(`${table.name} is ${kind}: a change of it cannot expect ${change.expect}`);
  }
}

/** Returns the bytes that the change stores. */
function assertSideChange(change: SideChange): number {
  const { table } = change.at as At<AnyTable>;
  if (change.at.fence !== undefined) throw new Error('a side change carries no fence: its commit does');
  if ('add' in change) {
    assertTable(table, table.kind === 'counter', 'is not a counter table: nothing can be added');
    for (const column in change.by) {
      const amount = change.by[column];
      if (table.columns[column]?.type !== 'int') throw new Error(`${table.name}.${column} is not an int`);
      if (!Number.isSafeInteger(amount)) throw new Error(`${table.name}.${column} cannot grow by ${amount}`);
    }
    return 0;
  }
  if ('put' in change) {
    assertTable(table, table.kind === 'plain', 'is not plain: a side change cannot put into it');
    return assertRow(change.at, change.put as Columns);
  }
  assertTable(table, table.kind !== 'conditional', 'is conditional: a side change cannot remove from it');
  return 0;
}

/** In a spread partition, all changes of a commit must have the same value in the spread column: one shard. */
function assertOneSpreadValue(at: At<AnyTable>, changes: readonly AnyChange[]): void {
  const column: string | undefined = at.table.spreadBy;
  if (column === undefined || (at.ways ?? 1) <= 1) return;
  let first: unknown;
  for (const change of changes) {
    const value = (changedRow(change) as Columns)[column];
    first ??= value;
    if (value !== first) {
      throw new Error(`a commit to ${at.table.name} stays with one ${column}: ${first} and ${value}`);
    }
  }
}

/** Refuses an update that gives a row another key. */
export function assertSameKey(at: At<AnyTable>, key: Uint8Array, changed: Uint8Array): void {
  if (compareBytes(key, changed) !== 0)
    throw new Error(`an update of a row of ${at.table.name} changes its key`);
}

export function changedRow(change: AnyChange | SideChange): object {
  if ('put' in change) return change.put as object;
  if ('remove' in change) return change.remove as object;
  return 'check' in change ? (change.check as object) : change.add;
}

/** Refuses a row that is too large or belongs to another partition; returns its size. */
export function assertRow(at: At<AnyTable>, row: Columns): number {
  for (const column of at.table.partition as readonly string[]) {
    if (row[column] !== (at.in as Columns)[column]) {
      throw new Error(
        `a row of ${at.table.name} with ${column} ${row[column]} is put into another partition`,
      );
    }
  }
  const bytes = rowBytes(row);
  if (bytes > commitLimits.rowBytes) {
    throw new RowTooLong(`a row of ${at.table.name} takes ${commitLimits.rowBytes} bytes, not ${bytes}`);
  }
  return bytes;
}

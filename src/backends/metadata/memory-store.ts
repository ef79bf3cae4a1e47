/**
 * The metadata port in memory: the default backend. A commit is evaluated without an `await`, so that nothing can run between its checks
 * and its writes.
 */

import type { Clock } from '../../ports/clock.ts';
import {
  type Abandoned,
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  type Cursor,
  localHealth,
  type MetadataStore,
  type Op,
  type Outcome,
  type Range,
  type Revision,
  type RowOf,
  type SideChange,
  type SortOf,
  type Stored,
} from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import { secondLookMs, stamp } from './epochs.ts';
import { buildOrder, type Columns, computeSpan } from './key-order.ts';
import { MemoryCursor, MemoryRows, type Prepared } from './memory-rows.ts';
import {
  assertClear,
  assertCommit,
  assertRow,
  assertSameKey,
  assertSideChanges,
  assertUpdate,
} from './rules.ts';

export interface MemoryOptions {
  readonly clock: Clock;
  readonly random: Random;
  /**
   * Without it an intent lives as long as the store, because its process does. With it, intents expire that `maintain` did not renew in
   * time, like those of another process.
   */
  readonly intentTtlMs?: number;
}

export interface MemoryStore extends MetadataStore {
  /** Renews the open intents; required only with `intentTtlMs`. */
  maintain(): Promise<void>;
}

interface Expecting extends Prepared {
  readonly expect: Change<AnyTable>['expect'];
}

type Because = 'conflict' | 'fenced' | 'abandoned';
type Refusal = { applied: false; because: Because; current?: Stored<unknown>; fence?: number };

class Memory implements MemoryStore {
  readonly isDistant = false;
  /** A partition is one ordered range. */
  readonly split = undefined;
  readonly #clock: Clock;
  readonly #rows: MemoryRows;
  readonly #intents: MemoryIntents;
  readonly #fences = new Map<string, number>();
  #revisions = 0;

  constructor(options: MemoryOptions) {
    this.#clock = options.clock;
    this.#rows = new MemoryRows(options.clock);
    this.#intents = new MemoryIntents(options);
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    return this.#rows.get(at, key as Columns) as Stored<RowOf<T>> | undefined;
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    return new MemoryCursor<T>(this.#rows, at, range);
  }

  async begin(intent: { readonly cluster: string }): Promise<{ readonly id: string }> {
    return this.#intents.begin(intent.cluster);
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    const listed = changes as readonly Change<AnyTable>[];
    assertCommit(at, listed, options);
    // Validate every row before the first of them is written.
    const prepared = listed.map((change) => ({ ...this.#prepared(at, change), expect: change.expect }));
    assertDistinct(at, prepared);
    const aside = options.then?.map((change) => this.#prepared(change.at as At<AnyTable>, change));
    const refusal = this.#refusal(at, prepared, options);
    if (refusal !== undefined) return refusal as Outcome<T>;
    const revision = this.#nextRevision();
    for (const { write } of prepared) write(revision);
    for (const { write } of aside ?? []) write(revision);
    return { applied: true, revision };
  }

  #prepared(at: At<AnyTable>, change: Change<AnyTable> | SideChange): Prepared {
    if ('put' in change) return this.#rows.preparedPut(at, change.put as Columns, change.expiresAt);
    if ('remove' in change) return this.#rows.preparedRemove(at, change.remove as Columns);
    if ('add' in change) return this.#rows.preparedAdd(at, change.add as Columns, change.by);
    return { key: this.#rows.keyOf(at, change.check as Columns), write: () => {} };
  }

  #refusal(at: At<AnyTable>, changes: readonly Expecting[], options: CommitOptions): Refusal | undefined {
    if (options.op !== undefined && !this.#intents.isOpen(options.op.id)) {
      return { applied: false, because: 'abandoned' };
    }
    const fence = this.#fenceOf(at);
    if (at.fence !== undefined && at.fence !== fence) return { applied: false, because: 'fenced', fence };
    for (const { key, expect } of changes) {
      if (expect === 'any') continue;
      const current = this.#rows.find(at.table, key);
      if ((current?.revision ?? 'absent') === expect) continue;
      return { applied: false, because: 'conflict', ...(current && { current }) };
    }
    return undefined;
  }

  async end(op: { readonly id: string }): Promise<void> {
    this.#intents.forget(op.id);
  }

  async abort(opId: string): Promise<void> {
    this.#intents.bar(opId);
  }

  async isOpen(opId: string): Promise<boolean> {
    return this.#intents.isOpen(opId);
  }

  /** Side changes are part of their commit. */
  async hasPendingAdditions(): Promise<boolean> {
    return false;
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    return this.#intents.abandoned();
  }

  async settle(intent: Abandoned): Promise<void> {
    this.#intents.settle(intent.prefix);
  }

  async apply(changes: readonly SideChange[]): Promise<void> {
    assertSideChanges(changes);
    const prepared = changes.map((change) => this.#prepared(change.at as At<AnyTable>, change));
    const revision = this.#nextRevision();
    for (const { write } of prepared) write(revision);
  }

  async update<T extends AnyTable>(
    at: At<T>,
    key: SortOf<T>,
    change: (row: RowOf<T> | undefined) => RowOf<T>,
  ): Promise<RowOf<T>> {
    assertUpdate(at);
    const current = this.#rows.get(at, key as Columns) as Stored<RowOf<T>> | undefined;
    const row = change(current?.row);
    const order = buildOrder(at.table);
    assertSameKey(
      at,
      order.rowKey(at.in as Columns, key as Columns),
      order.rowKey(at.in as Columns, row as Columns),
    );
    assertRow(at, row as Columns);
    this.#rows.preparedPut(at, row as Columns).write(this.#nextRevision());
    return row;
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    this.#revisions += 1;
    this.#rows.clear(at.table, computeSpan(buildOrder(at.table), at.in as Columns, range));
  }

  async fence<T extends AnyTable>(at: At<T>): Promise<number> {
    return this.#fenceOf(at);
  }

  async raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    this.#fences.set(this.#rows.partitionKey(at), Math.max(this.#fenceOf(at), generation));
  }

  #fenceOf(at: At<AnyTable>): number {
    return this.#fences.size === 0 ? 0 : (this.#fences.get(this.#rows.partitionKey(at)) ?? 0);
  }

  #nextRevision(): Revision {
    return String(++this.#revisions) as Revision;
  }

  watchCommits(): () => boolean {
    const begunAt = this.#revisions;
    return () => this.#revisions !== begunAt;
  }

  async now(): Promise<number> {
    return this.#clock.now();
  }

  async health(): ReturnType<MetadataStore['health']> {
    return localHealth('memory', { releaseVersion: '1' });
  }

  async maintain(): Promise<void> {
    this.#intents.renew();
  }

  async close(): Promise<void> {}
}

function assertDistinct(at: At<AnyTable>, changes: readonly Prepared[]): void {
  if (changes.length < 2) return;
  const distinct = new Set(changes.map(({ key }) => key));
  if (distinct.size < changes.length) throw new Error(`a commit changes a row of ${at.table.name} twice`);
}

export function memoryStore(options: MemoryOptions): MemoryStore {
  return new Memory(options);
}

// The intents of the memory backend: one for each op, renewed together.

interface Intent {
  readonly cluster: string;
  /**
   * No commit can apply under a barred intent, but its process must still end it. A swept and settled one is swept `again` when the second
   * look is due.
   */
  state: 'open' | 'barred' | 'swept' | 'settled' | 'again';
}

const isTaken = ({ state }: Intent): boolean => state !== 'open' && state !== 'barred';

export class MemoryIntents {
  readonly #ports: { readonly clock: Clock; readonly random: Random };
  readonly #ttlMs: number;
  readonly #intents = new Map<string, Intent & { lapsesAt: number }>();

  constructor(
    options: { readonly clock: Clock; readonly random: Random } & { readonly intentTtlMs?: number },
  ) {
    this.#ports = options;
    this.#ttlMs = options.intentTtlMs ?? Number.POSITIVE_INFINITY;
  }

  begin(cluster: string): Op {
    const id = stamp(this.#ports);
    this.#intents.set(id, { cluster, state: 'open', lapsesAt: this.#ports.clock.now() + this.#ttlMs });
    return { id };
  }

  isOpen(id: string): boolean {
    return this.#intents.get(id)?.state === 'open';
  }

  bar(id: string): void {
    const intent = this.#intents.get(id);
    if (intent?.state === 'open') intent.state = 'barred';
  }

  /** A swept intent is removed by the sweep only. */
  forget(id: string): void {
    const intent = this.#intents.get(id);
    if (intent !== undefined && !isTaken(intent)) this.#intents.delete(id);
  }

  abandoned(): readonly Abandoned[] {
    const now = this.#ports.clock.now();
    const found: Abandoned[] = [];
    for (const [id, intent] of this.#intents) {
      if (intent.lapsesAt <= now && !isTaken(intent)) intent.state = 'swept';
      if (intent.lapsesAt <= now && intent.state === 'settled') intent.state = 'again';
      if (isTaken(intent) && intent.state !== 'settled')
        found.push({ prefix: `${id}.`, cluster: intent.cluster });
    }
    return found;
  }

  settle(prefix: string): void {
    const id = prefix.slice(0, -1);
    const intent = this.#intents.get(id);
    if (intent?.state === 'again') this.#intents.delete(id);
    if (intent?.state !== 'swept') return;
    intent.state = 'settled';
    intent.lapsesAt = this.#ports.clock.now() + secondLookMs;
  }

  renew(): void {
    const lapsesAt = this.#ports.clock.now() + this.#ttlMs;
    for (const intent of this.#intents.values()) if (!isTaken(intent)) intent.lapsesAt = lapsesAt;
  }
}

/** The position of a scan on a store that sorts bytes: a range, what was read of it, and jumps in it. */
import type { AnyTable, At, Cursor, Range, RowOf, SortOf, Stored } from '../../../ports/metadata-store.ts';
import { type Columns, compareBytes, computeSpan, type Span, skipTo, type TableOrder } from '../key-order.ts';

export abstract class SpanCursor<T extends AnyTable> implements Cursor<T> {
  protected readonly partitionBytes: number;
  /** The rest of the range. */
  protected span: Span;
  readonly #order: TableOrder;
  readonly #at: At<T>;
  /** There is only shard 0; the others are empty. */
  readonly #isEmpty: boolean;

  constructor(order: TableOrder, at: At<T>, range: Range<T>) {
    this.partitionBytes = order.partitionKey(at.in as Columns).length;
    this.span = computeSpan(order, at.in as Columns, range);
    this.#order = order;
    this.#at = at;
    this.#isEmpty = (range.shard ?? 0) !== 0;
  }

  abstract next(count: number): Promise<readonly Stored<RowOf<T>>[]>;

  protected isDone(): boolean {
    return this.#isEmpty || compareBytes(this.span.low, this.span.high) >= 0;
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const prefix = this.#order.prefix(this.#at.in as Columns, key as Columns);
    this.span = skipTo(this.span, prefix, options.past ?? false);
  }
}

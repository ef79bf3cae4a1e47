/**
 * Clients that write, read, delete and list while movers split their partition; each key belongs to one client, so that every read can be
 * checked. Movers may hang for ever, or for a while beside others.
 */
import { expect } from 'vitest';
import { hashToShard } from '../../src/base/shard.ts';
import {
  type At,
  int,
  type MetadataStore,
  type RowOf,
  type Stored,
  StoreUnavailable,
  table,
  text,
} from '../../src/ports/metadata-store.ts';

/** Sorted like objects: the head of each key in one space, its history in the other. */
export const kept = table({
  name: 'kept',
  kind: 'conditional',
  isExported: true,
  partition: ['bucket'],
  sort: ['space', 'key', '-slot'],
  spreadBy: 'key',
  columns: { bucket: text(), space: int(), key: text(), slot: text(), text: text() },
});
export interface Kept extends RowOf<typeof kept> {}

export interface Layout {
  readonly ways: number;
  readonly splittingTo?: number;
  readonly fence: number;
}

export const random = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
};

const id = ({ space, key, slot }: Pick<Kept, 'space' | 'key' | 'slot'>): string => `${space}/${key}/${slot}`;

export class SplitRace {
  readonly bucket: string;
  /** All layouts of the bucket's row so far, the latest last. */
  readonly layouts: Layout[];
  /** The rows of every key by `id`. Only one client uses a key. */
  readonly #rows = new Map<string, Map<string, string>>();
  /** Increases at the begin and the end of every change of a key, so it is odd during a change. */
  readonly #changes = new Map<string, number>();
  #versions = 0;

  constructor(bucket: string, ways: number) {
    this.bucket = bucket;
    this.layouts = [{ ways, fence: 0 }];
  }

  get layout(): Layout {
    return this.layouts.at(-1) as Layout;
  }

  at(layout: Layout = this.layout): At<typeof kept> {
    return { table: kept, in: { bucket: this.bucket }, ...layout };
  }

  #row(key: string, slot: string, text: string, space = slot === '~' ? 0 : 1): Kept {
    return { bucket: this.bucket, space, key, slot, text };
  }

  #of(key: string): Map<string, string> {
    const rows = this.#rows.get(key) ?? new Map<string, string>();
    this.#rows.set(key, rows);
    return rows;
  }

  async #head(store: MetadataStore, key: string, layout: Layout): Promise<Stored<Kept> | undefined> {
    const head = await patiently(() => store.get(this.at(layout), { space: 0, key, slot: '~' }));
    expect(head?.row.text, `the head of ${key} under ${JSON.stringify(layout)}`).toBe(
      this.#of(key).get(`0/${key}/~`),
    );
    return head;
  }

  /** Reads a head. The layout may be old, because a reader may have read the bucket's row at any time before. */
  async read(store: MetadataStore, key: string, layout: Layout): Promise<void> {
    await this.#head(store, key, layout);
  }

  /** Puts a new head; an old one moves to the history. */
  async put(store: MetadataStore, key: string): Promise<void> {
    const text = String(++this.#versions).padStart(6, '0');
    await this.#change(store, key, (head) => [
      { put: this.#row(key, '~', text), expect: head?.revision ?? 'absent' },
      ...(head === undefined
        ? []
        : [{ put: this.#row(key, head.row.text, head.row.text), expect: 'absent' as const }]),
    ]);
    const rows = this.#of(key);
    const old = rows.get(`0/${key}/~`);
    if (old !== undefined) rows.set(`1/${key}/${old}`, old);
    rows.set(`0/${key}/~`, text);
    this.#changed(key);
  }

  /** Removes the head, or a row of the history. */
  async remove(store: MetadataStore, key: string, fromHistory: boolean): Promise<void> {
    const rows = this.#of(key);
    const old = [...rows.keys()].find((each) => each.startsWith(fromHistory ? '1/' : '0/'));
    if (old === undefined) return;
    const [space = '', , slot = ''] = old.split('/');
    await this.#change(store, key, async (_, layout) => {
      const at = { space: Number(space), key, slot };
      const found = await patiently(() => store.get(this.at(layout), at));
      expect(found?.row.text, `${old} under ${JSON.stringify(layout)}`).toBe(rows.get(old));
      return found === undefined ? [] : [{ remove: at, expect: found.revision }];
    });
    rows.delete(old);
    this.#changed(key);
  }

  #changed(key: string): void {
    this.#changes.set(key, (this.#changes.get(key) ?? 0) + 1);
  }

  async #change(
    store: MetadataStore,
    key: string,
    plan: (
      head: Stored<Kept> | undefined,
      layout: Layout,
    ) =>
      | Parameters<typeof store.commit<typeof kept>>[1]
      | Promise<Parameters<typeof store.commit<typeof kept>>[1]>,
  ): Promise<void> {
    this.#changed(key);
    for (let { layout } = this; ; ) {
      const head = await this.#head(store, key, layout);
      const changes = await plan(head, layout);
      const outcome = await patiently(() => store.commit(this.at(layout), changes));
      if (outcome.applied) return;
      // Another mover has moved it, or the layout has changed.
      if (outcome.because === 'fenced') ({ layout } = this);
    }
  }

  /** Expects that every row without a concurrent change is listed once with its content, and no row twice. */
  async list(
    store: MetadataStore,
    {
      page,
      reverse = false,
      layout = this.layout,
    }: { readonly page: number; readonly reverse?: boolean; readonly layout?: Layout },
  ): Promise<void> {
    const before = new Map(this.#changes);
    const was = new Map([...this.#rows].map(([key, rows]) => [key, new Map(rows)]));
    const cursor = store.scan(this.at(layout), { reverse });
    const seen = new Map<string, string>();
    let last: string | undefined;
    for (;;) {
      const rows = await patiently(() => cursor.next(page));
      if (rows.length === 0) break;
      for (const { row } of rows) {
        expect(seen.has(id(row)), `${id(row)} twice`).toBe(false);
        seen.set(id(row), row.text);
        const order = `${row.space}/${row.key}`;
        if (last !== undefined)
          expect(reverse ? order <= last : order >= last, `${order} behind ${last}`).toBe(true);
        last = order;
      }
    }
    for (const [key, rows] of was) {
      const count = before.get(key) ?? 0;
      if (count % 2 === 1 || this.#changes.get(key) !== count) continue;
      const listed = [...seen].filter(([each]) => each.split('/')[1] === key).sort();
      expect(listed, `the rows of ${key}`).toEqual([...rows].sort());
    }
  }

  /** Expects after the split that every shard holds its own rows; a store without shards has all in the first. */
  async check(store: MetadataStore, { isSharded = true } = {}): Promise<void> {
    await this.list(store, { page: 100 });
    const all = [...this.#rows.values()].flatMap((rows) => [...rows.keys()]);
    const listed: string[] = [];
    for (let shard = 0; shard < this.layout.ways; shard += 1) {
      const cursor = store.scan(this.at(), { shard });
      for (let rows = await cursor.next(100); rows.length > 0; rows = await cursor.next(100))
        for (const { row } of rows) {
          listed.push(id(row));
          if (isSharded) expect(hashToShard(row.key, this.layout.ways), id(row)).toBe(shard);
        }
    }
    expect(listed.sort()).toEqual(all.sort());
  }
}

/** Repeats a read while the store refuses it because the reader's lease on the layout has expired. */
export async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await work();
    } catch (cause) {
      if (!(cause instanceof StoreUnavailable)) throw cause;
    }
  }
}

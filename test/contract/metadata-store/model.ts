/** Random histories of calls: the store and all its answers equal those of a model made of plain maps. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Change, Op, Outcome, Revision, SideChange, Stored } from '../../../src/ports/metadata-store.ts';
import type { Laws, Opened } from '../metadata-store.ts';
import { byBytes } from './order.ts';
import { anyRange, expected, type HeadRange, names, slots } from './scans.ts';
import { all, fresh, type Head, head, type heads, headsOf, ranksOf, talliesOf } from './tables.ts';

type Hope = 'right' | 'stale' | 'absent';
interface Step {
  readonly key: string;
  readonly slot: string;
  readonly what: 'put' | 'remove' | 'check';
  readonly hope: Hope;
  readonly expires: boolean;
}
type Action =
  | {
      readonly do: 'commit';
      readonly steps: readonly Step[];
      readonly fence: 'none' | 'right' | 'wrong';
      readonly op: number | undefined;
      readonly score: number;
      readonly bytes: number;
    }
  | { readonly do: 'scan'; readonly range: HeadRange; readonly page: number }
  | { readonly do: 'raise'; readonly to: number }
  | { readonly do: 'begin' | 'pass' | 'clear' }
  | { readonly do: 'abort'; readonly op: number };

const step: fc.Arbitrary<Step> = fc.record({
  key: fc.constantFrom(...names.slice(0, 4)),
  slot: fc.constantFrom(...slots.slice(1)),
  what: fc.constantFrom('put', 'put', 'put', 'remove', 'check'),
  hope: fc.constantFrom<Hope[]>('right', 'right', 'right', 'right', 'stale', 'absent'),
  expires: fc.constantFrom(false, false, false, true),
});
const commit: fc.Arbitrary<Action> = fc.record({
  do: fc.constant('commit' as const),
  steps: fc.uniqueArray(step, { selector: ({ key, slot }) => `${key} ${slot}`, maxLength: 4 }),
  fence: fc.constantFrom('none', 'right', 'right', 'wrong'),
  op: fc.option(fc.nat(3), { nil: undefined }),
  score: fc.nat(3),
  bytes: fc.integer({ min: -9, max: 9 }),
});
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 8, arbitrary: commit },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('scan' as const),
      range: anyRange,
      page: fc.integer({ min: 1, max: 5 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('raise' as const), to: fc.nat(5) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('begin' as const, 'pass' as const, 'clear' as const) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('abort' as const), op: fc.nat(3) }) },
);

const expiryMs = 5000;
type Expected = 'absent' | Revision;

interface Kept extends Stored<Head> {
  readonly expires: boolean;
}

/** Applies each call to the store and to the model, and compares the answers. */
class History {
  readonly #opened: Opened;
  readonly #bucket = fresh();
  readonly #rows = new Map<string, Kept>();
  readonly #revisions: Revision[] = [];
  readonly #scores = new Set<number>();
  #bytes: number | undefined;
  #fence = 0;
  #count = 0;
  readonly #ops: { readonly op: Op; open: boolean }[] = [];

  constructor(opened: Opened) {
    this.#opened = opened;
  }

  async run(done: Action): Promise<void> {
    const { store, pass } = this.#opened;
    const at = headsOf(this.#bucket);
    if (done.do === 'begin') this.#ops.push({ op: await store.begin({ cluster: 'c' }), open: true });
    else if (done.do === 'commit') await this.#commit(done);
    else if (done.do === 'scan') await this.#scan(done.range, done.page);
    else if (done.do === 'raise') {
      await store.raiseFence(at, done.to);
      this.#fence = Math.max(this.#fence, done.to);
    } else if (done.do === 'pass') {
      await pass(expiryMs + 1);
      for (const [name, kept] of this.#rows) if (kept.expires) this.#rows.delete(name);
    } else if (done.do === 'clear') {
      await store.clear(ranksOf(this.#bucket), { after: { score: 2 } });
      for (const score of [0, 1]) this.#scores.delete(score);
    } else if (done.do === 'abort') {
      const chosen = this.#ops[done.op];
      if (chosen !== undefined) {
        await store.abort(chosen.op.id);
        chosen.open = false;
      }
    }
    await this.#compare();
  }

  async #commit(done: Action & { readonly do: 'commit' }): Promise<void> {
    const { store } = this.#opened;
    const expiresAt = (await store.now()) + expiryMs;
    const changes = done.steps.map((each) => this.#change(each, expiresAt));
    const fence = { none: undefined, right: this.#fence, wrong: this.#fence + 1 }[done.fence];
    const chosen = done.op === undefined ? undefined : this.#ops[done.op];
    const then: SideChange[] = [
      { at: ranksOf(this.#bucket), put: { board: this.#bucket, score: done.score, name: 'n' } },
      { at: talliesOf(this.#bucket), add: { className: 'c' }, by: { bytes: done.bytes } },
    ];
    const because = this.#refusal(changes, { fence, barred: chosen?.open === false });
    const outcome = await store.commit(headsOf(this.#bucket, fence), changes, {
      then,
      ...(chosen && { op: chosen.op }),
    });
    expect(outcome.applied ? undefined : withoutUndefined(outcome)).toEqual(because);
    if (outcome.applied) this.#apply(done, changes, outcome.revision);
  }

  #change(each: Step, expiresAt: number): Change<typeof heads> {
    const { key, slot, what } = each;
    const current = this.#rows.get(`${key} ${slot}`)?.revision;
    const stale: Expected = this.#revisions.find((revision) => revision !== current) ?? 'absent';
    const right: Expected = current ?? 'absent';
    const hoped = { right, stale, absent: 'absent' as const }[each.hope];
    const row = head(this.#bucket, key, { slot, size: this.#count++ });
    if (what === 'check') return { check: { key, slot }, expect: hoped };
    // A removal must name a revision.
    if (what === 'remove' && hoped !== 'absent') return { remove: { key, slot }, expect: hoped };
    return { put: row, expect: hoped, ...(each.expires ? { expiresAt } : {}) };
  }

  #refusal(
    changes: readonly Change<typeof heads>[],
    { fence, barred }: { readonly fence: number | undefined; readonly barred: boolean },
  ): object | undefined {
    if (barred) return { applied: false, because: 'abandoned' };
    if (fence !== undefined && fence !== this.#fence) {
      return { applied: false, because: 'fenced', fence: this.#fence };
    }
    for (const change of changes) {
      const current = this.#rows.get(nameOf(change));
      if ((current?.revision ?? 'absent') === change.expect) continue;
      if (current === undefined) return { applied: false, because: 'conflict' };
      return {
        applied: false,
        because: 'conflict',
        current: { row: current.row, revision: current.revision },
      };
    }
    return undefined;
  }

  #apply(
    done: Action & { readonly do: 'commit' },
    changes: readonly Change<typeof heads>[],
    revision: Revision,
  ): void {
    this.#revisions.push(revision);
    for (const change of changes) {
      if ('put' in change) {
        const expires = change.expiresAt !== undefined;
        this.#rows.set(nameOf(change), { row: change.put, revision, expires });
      } else if ('remove' in change) this.#rows.delete(nameOf(change));
    }
    this.#scores.add(done.score);
    this.#bytes = (this.#bytes ?? 0) + done.bytes;
  }

  #sorted(): Head[] {
    const rows = [...this.#rows.values()].map((kept) => kept.row);
    return rows.sort((a, b) => byBytes(a.key, b.key) || byBytes(b.slot, a.slot));
  }

  async #scan(range: HeadRange, page: number): Promise<void> {
    const read = await all(this.#opened.store.scan(headsOf(this.#bucket), range), page);
    expect(read).toEqual(expected(this.#sorted(), range));
  }

  async #compare(): Promise<void> {
    const { store } = this.#opened;
    await this.#scan({}, 100);
    for (const kept of this.#rows.values()) {
      const { row, revision } = kept;
      expect(await store.get(headsOf(this.#bucket), row)).toEqual({ row, revision });
    }
    const scores = (await all(store.scan(ranksOf(this.#bucket)))).map((row) => row.score);
    expect(scores).toEqual([...this.#scores].sort((a, b) => b - a));
    const tally = await store.get(talliesOf(this.#bucket), { className: 'c' });
    expect(tally?.row.bytes).toBe(this.#bytes);
    expect(await store.fence(headsOf(this.#bucket))).toBe(this.#fence);
  }

  async end(): Promise<void> {
    for (const { op } of this.#ops) await this.#opened.store.end(op);
  }
}

function nameOf(change: Change<typeof heads>): string {
  const { key, slot } = 'put' in change ? change.put : 'remove' in change ? change.remove : change.check;
  return `${key} ${slot}`;
}

const withoutUndefined = (outcome: Outcome<typeof heads>): object =>
  Object.fromEntries(Object.entries(outcome).filter(([, value]) => value !== undefined));

export function modelLaws({ law, runs }: Laws): void {
  law('answers as the model answers', async (opened) => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 40, size: 'max' }), async (actions) => {
        const history = new History(opened);
        for (const each of actions) await history.run(each);
        await history.end();
      }),
      { numRuns: runs },
    );
  });
}

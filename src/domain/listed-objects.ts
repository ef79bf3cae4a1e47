/** What the object listings walk over: live heads alone, or every version of every key in one order. */
import type { Context } from '../context.ts';
import { findHead, historyOf, objectsOf } from '../metadata/objects.ts';
import { prefixRange } from '../metadata/prefix.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  liveSpace,
  type ObjectRow,
  type objects,
} from '../metadata/tables.ts';
import type { Cursor, SortOf } from '../ports/metadata-store.ts';
import type { Listed } from './listing.ts';

type Ctx = Pick<Context, 'metadata'>;
type Start = { readonly from: string } | { readonly after: string } | undefined;

/** One space of a bucket's rows under a prefix. */
function openSpace(
  { metadata }: Ctx,
  bucket: BucketRow,
  { space, prefix }: { readonly space: number; readonly prefix: string },
): Cursor<typeof objects> {
  const range = prefixRange('key', prefix, { space });
  return metadata.scan(objectsOf(bucket), {
    from: (range.from ?? { space }) as Partial<SortOf<typeof objects>>,
    before: (range.before ?? { space: space + 1 }) as Partial<SortOf<typeof objects>>,
  });
}

function begin(cursor: Cursor<typeof objects>, space: number, start: Start): void {
  if (start === undefined) return;
  if ('from' in start) cursor.seek({ space, key: start.from });
  else cursor.seek({ space, key: start.after }, { past: true });
}

/** The live heads under a prefix: versions and delete markers cost a listing nothing, for it never meets them. */
export function liveObjects(
  ctx: Ctx,
  bucket: BucketRow,
  { prefix, start }: { readonly prefix: string; readonly start: Start },
): Listed<ObjectRow> {
  const cursor = openSpace(ctx, bucket, { space: liveSpace, prefix });
  begin(cursor, liveSpace, start);
  return {
    next: async (count) => (await cursor.next(count)).map(({ row }) => row),
    leap: (key) => cursor.seek({ space: liveSpace, key }),
    keyOf: (row) => row.key,
  };
}

/** Compares texts by their UTF-8 bytes, as the stores order them: surrogates sort behind U+E000…U+FFFF. */
export function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}
const rank = (unit: number): number =>
  unit >= 0xd800 && unit <= 0xdfff ? unit + 0x2000 : unit >= 0xe000 ? unit - 0x800 : unit;

/** Where a listing of versions resumes: behind a key, or behind one version of it. */
export type VersionStart = Start | { readonly key: string; readonly version: string };

/** One of the two spaces, read ahead a little. */
class Ahead {
  readonly #cursor: Cursor<typeof objects>;
  #rows: readonly ObjectRow[] = [];
  #at = 0;
  /** A space without rows, the usual history, is asked once and not for every row of the other. */
  #isExhausted = false;
  constructor(cursor: Cursor<typeof objects>) {
    this.#cursor = cursor;
  }
  async peek(count: number): Promise<ObjectRow | undefined> {
    if (this.#at >= this.#rows.length && !this.#isExhausted) {
      this.#rows = (await this.#cursor.next(count)).map(({ row }) => row);
      this.#at = 0;
      this.#isExhausted = this.#rows.length === 0;
    }
    return this.#rows[this.#at];
  }
  take(): void {
    this.#at += 1;
  }
  leap(space: number, key: string): void {
    while (this.#at < this.#rows.length && compareUtf8(this.#rows[this.#at]?.key ?? '', key) < 0)
      this.#at += 1;
    if (this.#at >= this.#rows.length) this.#cursor.seek({ space, key });
  }
}

/** Every version and marker under a prefix: by key, the newest first (spec "ListObjectVersions"). */
export function everyVersion(
  ctx: Ctx,
  bucket: BucketRow,
  { prefix, start }: { readonly prefix: string; readonly start: VersionStart },
): Listed<ObjectRow> {
  const cursors = [liveSpace, historySpace].map((space) => openSpace(ctx, bucket, { space, prefix })) as [
    Cursor<typeof objects>,
    Cursor<typeof objects>,
  ];
  if (start !== undefined && 'version' in start) {
    cursors[0].seek({ space: liveSpace, key: start.key }, { past: true });
    cursors[1].seek(historyOf(start.key, start.version === '' ? headSlot : start.version), { past: true });
  } else {
    begin(cursors[0], liveSpace, start);
    begin(cursors[1], historySpace, start);
  }
  const [live, history] = [new Ahead(cursors[0]), new Ahead(cursors[1])];
  let resumed: { readonly key: string; readonly version: string } | undefined =
    start !== undefined && 'version' in start && start.key.startsWith(prefix) ? start : undefined;
  return {
    async next(count) {
      const rows: ObjectRow[] = [];
      if (resumed !== undefined) {
        const { key, version } = resumed;
        resumed = undefined;
        // The cursors begin in the history. Where the newer versions have gone meanwhile, an older one leads.
        const head = version === '' ? undefined : await findHead(ctx.metadata, bucket, key);
        if (head !== undefined && head.row.version < version) rows.push(head.row);
      }
      while (rows.length < count) {
        const [head, older] = [await live.peek(count), await history.peek(count)];
        if (head === undefined && older === undefined) break;
        // A live head is newer than all of its history, which holds no marker head then.
        const isHeadNext =
          older === undefined || (head !== undefined && compareUtf8(head.key, older.key) <= 0);
        const next = isHeadNext ? head : older;
        if (next === undefined) break;
        rows.push(next);
        (isHeadNext ? live : history).take();
      }
      return rows;
    },
    leap(key) {
      live.leap(liveSpace, key);
      history.leap(historySpace, key);
    },
    keyOf: (row) => row.key,
  };
}

/**
 * The audit rows that name the keys of a DeleteObjects. A page of keys is a row, small enough for every backend.
 *
 * A page is written before the first of its keys is deleted, and again with what became of each key. So a process that dies in between
 * leaves the names of all keys that it may have deleted. A page whose keys are all refused is written once, at the end, within the limits
 * for refusals. On a full disk, which takes deletions only, a page is in the commit of each deletion instead, and stays without outcomes.
 */
import type { Context } from '../../context.ts';
import { audited, idOfKeyPage, timeOfRow } from '../../metadata/audit.ts';
import type { AuditedKey, AuditRow } from '../../metadata/records/audit.ts';
import { isStorageFull } from '../../ports/chunk-store.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import type { KeyOutcome, KeyRecorder, NamedKey } from '../../request/request.ts';
import { RefusedCallers } from './refused-callers.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry' | 'lateWrites'>;
type Entry = Omit<AuditRow, 'hour' | 'slot'>;

/** Bytes of the keys of a page as JSON; a row may have twice as many (`commitLimits.rowBytes`). */
const pageBytes = 12 * 1024;
/** For the status and the error code of a key. */
const outcomeBytes = 64;
/** A key that is refused for its length is shortened; a valid one has at most so many bytes, and an id of a version fewer. */
const nameMax = 1024;
const versionIdMax = 256;

interface Page {
  readonly number: number;
  readonly keys: AuditedKey[];
  /** Present once a key of the page may have been deleted. */
  writing?: Promise<void>;
}

type Place = readonly [Page, number];

export class KeyPages implements KeyRecorder {
  readonly #ctx: Ctx;
  readonly #entry: Entry;
  readonly #pages: readonly Page[];
  /** The page of each key, and its position there. */
  readonly #places: readonly Place[];

  constructor(ctx: Ctx, entry: Entry, keys: readonly NamedKey[]) {
    this.#ctx = ctx;
    this.#entry = entry;
    const pages: Page[] = [];
    let bytes = pageBytes;
    this.#places = keys.map((named) => {
      const each = shorten(named);
      const length = encoder.encode(JSON.stringify(each)).length + outcomeBytes;
      if (bytes + length > pageBytes) {
        pages.push({ number: pages.length + 1, keys: [] });
        bytes = 0;
      }
      bytes += length;
      const page = pages.at(-1) as Page;
      return [page, page.keys.push(each) - 1];
    });
    this.#pages = pages;
  }

  async begin(place: number): Promise<readonly SideChange[]> {
    const [page] = this.#places[place] as Place;
    page.writing ??= this.#ctx.metadata.apply([this.#row(this.#entryOf(page))]);
    try {
      await page.writing;
      return [];
    } catch (cause) {
      if (!isStorageFull(cause)) throw cause;
      return [this.#row(this.#entryOf(page))];
    }
  }

  settle(place: number, { status, error }: KeyOutcome): void {
    const [page, index] = this.#places[place] as Place;
    const named = page.keys[index] as AuditedKey;
    page.keys[index] = { ...named, status, ...(error === undefined ? {} : { error }) };
  }

  /** Writes the pages with what became of their keys. */
  async end(): Promise<void> {
    for (const page of this.#pages) {
      if (page.writing === undefined && !this.#admits(page)) continue;
      try {
        await this.#ctx.metadata.apply([this.#row(this.#entryOf(page))]);
      } catch (cause) {
        const { id, action } = this.#entry;
        const fields = { request_id: id, action, page: page.number, cause };
        const level = isStorageFull(cause) ? 'WARN' : 'ERROR';
        this.#ctx.telemetry.log(level, 'an audit row was not written', fields, action);
      }
    }
  }

  #admits(page: Page): boolean {
    const { status, error } = page.keys[0] ?? {};
    const entry = { ...this.#entryOf(page), ...(status === undefined ? {} : { status }) };
    return this.#ctx.caches.of(RefusedCallers).admit(this.#ctx, { ...entry, error: error ?? '' });
  }

  #entryOf({ number, keys }: Page): Entry {
    const time = timeOfRow(this.#entry.time, this.#ctx.clock.now());
    return { ...this.#entry, time, id: idOfKeyPage(this.#entry.id, number), keys: [...keys] };
  }

  #row(entry: Entry): SideChange {
    return audited(entry, { retentionMs: this.#ctx.config.SVC_AUDIT_RETENTION });
  }
}

const encoder = new TextEncoder();

const shorten = ({ key, versionId }: NamedKey): AuditedKey => ({
  key: key.slice(0, nameMax),
  ...(versionId === undefined ? {} : { versionId: versionId.slice(0, versionIdMax) }),
});

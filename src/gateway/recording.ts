/**
 * The audit row and the events of a request that changes something. They are committed together with the change itself, where the row
 * reports success; the pipeline writes the row where nothing was committed or the request ended otherwise. Below: the
 * rows of many keys, and of many refusals.
 */

import type { Identity } from '../auth/identity.ts';
import { principalOf, recordedArn } from '../auth/principal.ts';
import type { ErrorCode } from '../base/errors.ts';
import { toHex } from '../base/text/hex.ts';
import type { Context } from '../context.ts';
import { type KeyMove, type RecordedFields, type State, stateChanges } from '../domain/common/recorder.ts';
import { eventChanges, hasListener } from '../domain/events/events.ts';
import { audited, idOfKeyPage, timeOfRow } from '../metadata/audit.ts';
import type { AuditedKey, AuditedSession, AuditRow } from '../metadata/records/audit.ts';
import { isStorageFull } from '../ports/chunk-store.ts';
import type { Session } from '../ports/credentials.ts';
import type { SideChange } from '../ports/metadata-store.ts';
import type { Wire } from '../protocol/wire.ts';
import type {
  AuditRecorder,
  Ending,
  KeyOutcome,
  KeyRecorder,
  NamedKey,
  RequestContext,
} from '../request/request.ts';
import { askedAt, whereLocated } from './locate.ts';

interface RecordedRequest {
  readonly requestId: string;
  readonly wire: Wire;
  /** The operation's name, or `admin:<OperationName>`. */
  readonly action: string;
  readonly identity: Identity;
  /** '' where it is about none. */
  readonly bucketName: string;
  readonly key: string;
  /** The events that buckets record about it. */
  readonly events?: readonly string[] | undefined;
  /** The fields of a configuration whose changes the row shows. */
  readonly recorded?: RecordedFields | undefined;
}

/** A name that was refused for its length is shortened, and so is everything that an unknown caller sent. */
const nameMax = 1024;
const unknownNameMax = 128;
/** The longest address; a trusted proxy may forward something else. */
const sourceMax = 64;

type Ctx = Pick<
  Context,
  | 'caches'
  | 'metadata'
  | 'clock'
  | 'random'
  | 'config'
  | 'telemetry'
  | 'lateWrites'
  | 'hasher'
  | 'application'
>;

export class Recording implements AuditRecorder {
  readonly #ctx: Ctx;
  readonly #request: RecordedRequest;
  #entry: Omit<AuditRow, 'hour' | 'slot'>;
  #isWritten = false;
  #pages: KeyPages | undefined;

  constructor(ctx: Ctx, request: RecordedRequest) {
    this.#ctx = ctx;
    this.#request = request;
    this.#entry = toAuditEntry(ctx, request);
  }

  /** For a request of many commits: once one commit has applied, later ones leave the row as it is. */
  async changes(move?: KeyMove): Promise<readonly SideChange[]> {
    this.#entry = this.#inTime();
    const rows = this.#isWritten ? [] : [this.#row(this.#entry)];
    if (move === undefined || !hasListener(this.#ctx, move.bucket)) return rows;
    const { events = [], requestId, wire, identity } = this.#request;
    const principalId = principalOf(identity).userid;
    return [
      ...rows,
      ...(await eventChanges(this.#ctx, move, { events, requestId, principalId, source: wire.remote })),
    ];
  }

  about(arn: string): void {
    this.#isWritten &&= this.#entry.resource === arn;
    this.#entry = { ...this.#entry, resource: arn };
  }

  qualify(part: string): void {
    this.#entry = { ...this.#entry, action: `${this.#request.action}/${part}` };
  }

  by(caller: { readonly principal: string; readonly accessKey: string; readonly account: string }): void {
    this.#entry = { ...this.#entry, ...caller };
  }

  records(field: string): boolean {
    const { records = [], digests = [] } = this.#request.recorded ?? {};
    return records.includes(field) || digests.includes(field);
  }

  change(before: State | undefined, after: State | undefined): void {
    const { recorded } = this.#request;
    if (recorded === undefined) return;
    const { changes: _, ...entry } = this.#entry;
    const changes = stateChanges(this.#ctx.hasher, recorded, { before, after });
    this.#entry = changes.length === 0 ? entry : { ...entry, changes };
  }

  applied(): void {
    this.#isWritten = true;
  }

  ofKeys(keys: readonly NamedKey[]): KeyRecorder {
    this.#pages = new KeyPages(this.#ctx, this.#entry, keys);
    return this.#pages;
  }

  isComplete(ending: Ending): boolean {
    return this.#pages === undefined && this.#isTrue(ending);
  }

  #isTrue({ status, code }: Ending): boolean {
    return this.#isWritten && code === undefined && status === this.#entry.status;
  }

  /** Writes the row, or corrects it, with the result of the request. The change itself stays, also where this write fails. */
  async end(ending: Ending): Promise<void> {
    // Nothing was changed, and clients that retry would fill the reserve of the disk with rows.
    if (ending.code === 'InsufficientStorage' && !this.#isWritten) return;
    if (!this.#isTrue(ending)) await this.#write(ending);
    await this.#pages?.end();
  }

  async #write({ status, code }: Ending): Promise<void> {
    this.#entry = this.#inTime();
    const isRefused = code !== undefined && !this.#isWritten;
    // A refused change was not made; one that failed with 5xx may have been.
    const { changes, ...others } = this.#entry;
    const visible = changes === undefined || (isRefused && status < 500) ? others : this.#entry;
    const entry = { ...visible, status, ...(code === undefined ? {} : { error: code }) };
    if (isRefused && !this.#ctx.caches.of(RefusedCallers).admit(this.#ctx, entry)) return;
    try {
      await this.#ctx.metadata.apply([this.#row(entry)]);
    } catch (cause) {
      const { id, action } = entry;
      const fields = { request_id: id, action, cause };
      this.#ctx.telemetry.log('ERROR', 'an audit row was not written', fields, action);
    }
  }

  /** The entry with a time whose hour still takes rows. */
  #inTime(): Omit<AuditRow, 'hour' | 'slot'> {
    const time = timeOfRow(this.#entry.time, this.#ctx.clock.now());
    return time === this.#entry.time ? this.#entry : { ...this.#entry, time };
  }

  #row(entry: Omit<AuditRow, 'hour' | 'slot'>): SideChange {
    return audited(entry, { retentionMs: this.#ctx.config.SVC_AUDIT_RETENTION });
  }
}

/** Refusals by the signing key of a bucket are audited for reads too (spec, "Events", 5). */
const ofSigningKeys: ReadonlySet<ErrorCode> = new Set(['KeyExpired', 'KeyDenied', 'KeyTampered']);

/** For a request that was refused before its operation was selected: the caller is unknown. */
export function recordingOfUnknown(
  ctx: Ctx,
  request: RequestContext,
  code: ErrorCode,
): Recording | undefined {
  const located = whereLocated(request);
  const asked = located && askedAt(located);
  if (located === undefined || asked === undefined) return undefined;
  if (!asked.audited && !ofSigningKeys.has(code)) return undefined;
  const { requestId, wire } = located;
  return new Recording(ctx, { ...asked, requestId, wire, identity: undefined });
}

function toAuditEntry(
  { clock, hasher }: Pick<Ctx, 'clock' | 'hasher'>,
  { requestId, wire, action, identity, bucketName, key }: RecordedRequest,
): Omit<AuditRow, 'hour' | 'slot'> {
  const time = clock.now();
  const longest = identity === undefined ? unknownNameMax : nameMax;
  return {
    time,
    id: requestId,
    action,
    resource: bucketName === '' ? '' : `bucket:${bucketName.slice(0, longest)}`,
    ...(key === '' ? {} : { key: key.slice(0, longest) }),
    // The status of a success; `end` corrects it after a failure.
    status: wire.method === 'DELETE' ? 204 : 200,
    ...(identity === undefined
      ? {}
      : { principal: recordedArn(identity), accessKey: identity.accessKey, account: identity.owner }),
    source: wire.remote.slice(0, sourceMax),
    ...(identity?.session === undefined ? {} : { session: toAuditedSession(hasher, identity.session) }),
  };
}

function toAuditedSession(
  hasher: Ctx['hasher'],
  { isOfLogin, parentKey, inline, managed, mfaAt, isTagged }: Session,
): AuditedSession {
  return {
    ...(isOfLogin === undefined ? {} : { isOfLogin }),
    ...(parentKey === undefined ? {} : { parentKey }),
    // That of a log-in is always the same.
    ...(inline === undefined || isOfLogin === true ? {} : { policySha256: hasher.sha256Hex(inline) }),
    ...(managed === undefined ? {} : { managed }),
    ...(mfaAt === undefined ? {} : { isMfa: true as const }),
    ...(isTagged === undefined ? {} : { isTagged }),
  };
}

type RowContext = Pick<
  Context,
  'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry' | 'lateWrites'
>;
type Entry = Omit<AuditRow, 'hour' | 'slot'>;

/** Bytes of the keys of a page as JSON; a row may have twice as many (`commitLimits.rowBytes`). */
const pageBytes = 12 * 1024;
/** For the status and the error code of a key. */
const outcomeBytes = 64;
/** A key that is refused for its length is shortened; a valid one has at most so many bytes, and an id of a version fewer. */
const keyMax = 1024;
const versionIdMax = 256;

interface Page {
  readonly number: number;
  readonly keys: AuditedKey[];
  /** Present once a key of the page may have been deleted. */
  writing?: Promise<void>;
}

type Place = readonly [Page, number];

/**
 * The audit rows that name the keys of a DeleteObjects. A page of keys is a row, small enough for every backend.
 *
 * A page is written before the first of its keys is deleted, and again with what became of each key. So a process that dies in between
 * leaves the names of all keys that it may have deleted. A page whose keys are all refused is written once, at the end, within the limits
 * for refusals. On a full disk, which takes deletions only, a page is in the commit of each deletion instead, and stays without outcomes.
 */
class KeyPages implements KeyRecorder {
  readonly #ctx: RowContext;
  readonly #entry: Entry;
  readonly #pages: readonly Page[];
  /** The page of each key, and its position there. */
  readonly #places: readonly Place[];

  constructor(ctx: RowContext, entry: Entry, keys: readonly NamedKey[]) {
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
  key: key.slice(0, keyMax),
  ...(versionId === undefined ? {} : { versionId: versionId.slice(0, versionIdMax) }),
});

// The audit rows of refusals. A caller can cause any number of refusals, even an anonymous one. So a process writes a limited number
// of single rows a minute, for each account and for all unknown callers together; the others are counted, in one row for each minute,
// account, operation and error code. The count is written at most once a second, on a best effort like access logs. A change always
// has a row of its own.

const minuteMs = 60_000;
const restMs = 1_000;
/**
 * Unwritten counts of a process by operation and error code. Beyond that the refusals of an account are one count, and its failures (5xx)
 * are another, so that none is lost. These are bounded because accounts are known ones.
 */
const sumsMax = 10_000;
const sumBytes = 512;

interface Sum {
  entry: Entry & { readonly count: number };
  isWritten: boolean;
}

class RefusedCallers {
  #minute = -1;
  /** Rows of this minute by account; '' stands for all unknown callers. */
  readonly #rows = new Map<string, number>();
  #process: string | undefined;
  readonly #sums = new Map<string, Sum>();
  #writing: Promise<void> | undefined;

  /** @returns whether the refusal gets a row of its own; otherwise it is counted */
  admit(ctx: RowContext, entry: Entry): boolean {
    // By the present, because requests of several minutes may end in turn, and each change of the minute forgets the counts.
    const minute = Math.floor(ctx.clock.now() / minuteMs);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#rows.clear();
    }
    const { account = '' } = entry;
    const rows = this.#rows.get(account) ?? 0;
    const { SVC_AUDIT_UNKNOWN_CALLERS: unknownMax, SVC_AUDIT_REFUSALS: knownMax } = ctx.config;
    if (rows < (account === '' ? unknownMax : knownMax)) {
      this.#rows.set(account, rows + 1);
      return true;
    }
    this.#count(ctx, entry, minute);
    return false;
  }

  #count(ctx: RowContext, { time, status, account, ...refused }: Entry, minute: number): void {
    const own = { action: refused.action, error: refused.error ?? '' };
    ctx.telemetry.count('svc_audit_counted_total', { error: own.error });
    const placeOf = ({ action, error }: typeof own) => `${minute}-${account ?? ''}-${action}-${error}`;
    const isCrowded = this.#sums.size >= sumsMax && !this.#sums.has(placeOf(own));
    const kind = isCrowded ? { action: '*', error: status < 500 ? '4xx' : '5xx' } : own;
    const place = placeOf(kind);
    const known = this.#sums.get(place);
    this.#process ??= toHex(ctx.random.bytes(4));
    const id = `${this.#process}-${place}`;
    const caller = account === undefined ? {} : { account };
    // The row keeps the time and the id of its first refusal: written again it is the same row.
    const first = known?.entry ?? {
      time,
      id,
      ...kind,
      resource: '',
      status,
      ...caller,
      source: '',
      count: 0,
    };
    this.#sums.set(place, { entry: { ...first, count: first.count + 1 }, isWritten: false });
    this.#writing ??= this.#write(ctx);
  }

  async #write(ctx: RowContext): Promise<void> {
    do await ctx.clock.sleep(restMs);
    while (this.flush(ctx) && ctx.clock.hasRequestScopedTimers !== true);
    this.#writing = undefined;
  }

  /** Passes what was counted on to the late writes. @returns whether anything was counted since the last call */
  flush({ config, lateWrites }: Pick<RowContext, 'config' | 'lateWrites'>): boolean {
    let left = false;
    for (const [place, sum] of this.#sums) {
      if (sum.isWritten) this.#sums.delete(place);
      else {
        sum.isWritten = true;
        left = true;
        void lateWrites.add(audited(sum.entry, { retentionMs: config.SVC_AUDIT_RETENTION }), sumBytes);
      }
    }
    return left;
  }
}

/** At the end of the process, before the late writes are flushed. */
export function flushRefusals(ctx: Pick<RowContext, 'caches' | 'config' | 'lateWrites'>): void {
  ctx.caches.of(RefusedCallers).flush(ctx);
}

/**
 * The audit rows of refusals. A caller can cause any number of refusals, even an anonymous one. So a process writes a limited number
 * of single rows a minute, for each account and for all unknown callers together; the others are counted, in one row for each minute,
 * account, operation and error code. The count is written at most once a second, on a best effort like access logs. A change always
 * has a row of its own.
 */

import type { Context } from '../context.ts';
import { audited } from '../metadata/audit.ts';
import type { AuditRow } from '../metadata/records/audit.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry' | 'lateWrites'>;
type Entry = Omit<AuditRow, 'hour' | 'slot'>;

const minuteMs = 60_000;
const restMs = 1_000;
/** Unwritten counts of a process; bounded because operations and error codes come from tables and accounts are known ones. */
const sumsMax = 10_000;
const sumBytes = 512;

interface Sum {
  entry: Entry & { readonly count: number };
  isWritten: boolean;
}

export class RefusedCallers {
  #minute = -1;
  /** Rows of this minute by account; '' stands for all unknown callers. */
  readonly #rows = new Map<string, number>();
  #process: string | undefined;
  readonly #sums = new Map<string, Sum>();
  #writing: Promise<void> | undefined;

  /** @returns whether the refusal gets a row of its own; otherwise it is counted */
  admit(ctx: Ctx, entry: Entry): boolean {
    const minute = Math.floor(entry.time / minuteMs);
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

  #count(ctx: Ctx, { time, action, status, account, error = '' }: Entry, minute: number): void {
    ctx.telemetry.refusalCounted(error);
    const of = account === undefined ? `${action}-${error}` : `${account}-${action}-${error}`;
    const place = `${minute} ${of}`;
    const known = this.#sums.get(place);
    if (known === undefined && this.#sums.size >= sumsMax) return;
    this.#process ??= [...ctx.random.bytes(4)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    const id = `${this.#process}-${minute}-${of}`;
    const caller = account === undefined ? {} : { account };
    // The row keeps the time and the id of its first refusal: written again it is the same row.
    const first = known?.entry ?? {
      time,
      id,
      action,
      resource: '',
      status,
      ...caller,
      error,
      source: '',
      count: 0,
    };
    this.#sums.set(place, { entry: { ...first, count: first.count + 1 }, isWritten: false });
    this.#writing ??= this.#write(ctx);
  }

  async #write(ctx: Ctx): Promise<void> {
    const retentionMs = ctx.config.SVC_AUDIT_RETENTION;
    let left = true;
    while (left) {
      await ctx.clock.sleep(restMs);
      left = false;
      for (const [place, sum] of this.#sums) {
        if (sum.isWritten) this.#sums.delete(place);
        else {
          sum.isWritten = true;
          left = true;
          void ctx.lateWrites.add(audited(sum.entry, { retentionMs }), sumBytes);
        }
      }
    }
    this.#writing = undefined;
  }
}

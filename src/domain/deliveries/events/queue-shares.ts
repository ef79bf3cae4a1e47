/**
 * Shares a queue that is beyond `SVC_QUEUE_ROWS_MAX` among the accounts of its rows: no account loses a row before the accounts with more rows
 * have lost theirs down to the same number. So the queue drops tasks of the account that fills it, and keeps those of all other accounts.
 */
import type { Context } from '../../../context.ts';
import { finishHourlyRows } from '../../../metadata/background/hourly-consumer.ts';
import { rowsOfHour } from '../../../metadata/background/hourly-queues.ts';
import type { HourlyRow, QueueHour } from '../../../metadata/records/queues.ts';
import { soundPages } from '../../../metadata/sound-rows.ts';

type Ctx = Pick<Context, 'metadata' | 'clock'>;

const pageRows = 200;
/** The rows of further accounts are counted together, with those of older builds, which name no account. */
const accountsMax = 10_000;

type RowsByAccount = ReadonlyMap<string, number>;

const accountOf = ({ task }: Pick<HourlyRow, 'task'>): string =>
  (task as { readonly account?: string }).account ?? '';

const nameIn = (accounts: RowsByAccount, account: string): string =>
  accounts.has(account) || accounts.size < accountsMax ? account : '';

/** Counts the rows of the hours by account. It reads every row: call it for a queue that is beyond its limit. */
export async function countAccounts(
  { metadata }: Ctx,
  hours: readonly QueueHour[],
  signal: AbortSignal,
): Promise<RowsByAccount> {
  const accounts = new Map<string, number>();
  for (const hour of hours) {
    for await (const page of soundPages(rowsOfHour(metadata, hour), pageRows)) {
      signal.throwIfAborted();
      for (const { row } of page) {
        const name = nameIn(accounts, accountOf(row));
        accounts.set(name, (accounts.get(name) ?? 0) + 1);
      }
    }
  }
  return accounts;
}

/** The number of rows above which an account loses rows; Infinity where all of them fit. */
export function shareOf(accounts: RowsByAccount, max: number): number {
  const counts = [...accounts.values()].sort((a, b) => a - b);
  let left = max;
  for (const [index, count] of counts.entries()) {
    const share = Math.floor(left / (counts.length - index));
    if (count > share) return share;
    left -= count;
  }
  return Number.POSITIVE_INFINITY;
}

interface Trimmed {
  readonly rows: number;
  readonly accounts: readonly string[];
  /** The rows that are left, by the hours that were passed, in their order. */
  readonly left: readonly number[];
}

/**
 * Removes the oldest rows of the accounts that have more than their share.
 * @param hours those that may lose rows, the oldest first
 * @param onRows called with rows before they are removed
 */
export async function trimAccounts(
  { metadata, clock }: Ctx,
  {
    hours,
    accounts,
    max,
    onRows,
    signal,
  }: {
    readonly hours: readonly QueueHour[];
    readonly accounts: RowsByAccount;
    readonly max: number;
    onRows(rows: readonly HourlyRow[]): Promise<unknown>;
    readonly signal: AbortSignal;
  },
): Promise<Trimmed> {
  const share = shareOf(accounts, max);
  const surplus = new Map([...accounts].map(([name, count]) => [name, Math.max(0, count - share)]));
  const trimmed = new Set<string>();
  const left: number[] = [];
  let removed = 0;
  for (const hour of hours) {
    let kept = 0;
    for await (const page of soundPages(rowsOfHour(metadata, hour), pageRows)) {
      signal.throwIfAborted();
      const rows = page
        .map(({ row }) => row)
        .filter((row) => {
          const name = nameIn(accounts, accountOf(row));
          const more = surplus.get(name) ?? 0;
          if (more <= 0) return false;
          surplus.set(name, more - 1);
          trimmed.add(name);
          return true;
        });
      await onRows(rows);
      await finishHourlyRows(metadata, rows);
      removed += rows.length;
      kept += page.length - rows.length;
      // Millions of rows may go: requests are not to wait for them.
      await clock.sleep(0, signal);
    }
    left.push(kept);
  }
  return { rows: removed, accounts: [...trimmed], left };
}

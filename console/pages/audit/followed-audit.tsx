/** Follows the audit log: new rows of all gateways appear by themselves, the newest first. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Ask, call } from '../../app/client.ts';
import { formatNumber } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Button } from '../../ui/form.tsx';
import { type AuditRow, rowKey } from './audit-row.tsx';
import { w } from './words.ts';

type Filter = Omit<NonNullable<Ask<'FollowAudit'>['query']>, 'after' | 'limit'>;

const pollMs = 2_000;
/** Failures of the network double the pause, up to this. */
const pauseMaxMs = 30_000;
const firstMax = 100;
const pageMax = 1_000;
/** Bounds the memory of the tab. Older rows leave the page; the list has them. */
const rowsMax = 1_000;

export interface Followed {
  /** Undefined before the first page. */
  readonly rows: readonly AuditRow[] | undefined;
  readonly error: Error | null;
  readonly isPaused: boolean;
  pause(isPaused: boolean): void;
  retry(): void;
}

/** Polls. Each poll continues at the place of the last one, also after a pause or an hour in a hidden tab. */
export function useFollowedAudit(
  { start: _, end: __, ...filter }: Filter & { readonly start?: string; readonly end?: string },
  isOn: boolean,
): Followed {
  const [rows, setRows] = useState<readonly AuditRow[]>();
  const [error, setError] = useState<Error | null>(null);
  const [isPaused, setPaused] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const after = useRef<string | undefined>(undefined);
  const asked = JSON.stringify(filter);
  useEffect(() => {
    after.current = undefined;
    setRows(undefined);
    setError(null);
    setPaused(false);
  }, [asked, isOn]);
  useEffect(() => {
    if (!isOn || isPaused) return undefined;
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    const later = (ms: number): void => {
      timer = setTimeout(poll, ms);
    };
    const poll = async (): Promise<void> => {
      if (document.hidden) return later(pollMs);
      const place = after.current;
      try {
        const page = await call('FollowAudit', {
          // The cast: `asked` is the JSON of a filter.
          query: {
            ...(JSON.parse(asked) as Filter),
            ...(place === undefined ? { limit: firstMax } : { after: place, limit: pageMax }),
          },
          signal: ended.signal,
        });
        if (ended.signal.aborted) return;
        failures = 0;
        after.current = page.next;
        setError(null);
        setRows((before) => newestFirst(before, page.rows));
        later(page.hasMore ? 0 : pollMs);
      } catch (cause) {
        if (ended.signal.aborted) return;
        failures += 1;
        setError(cause as Error);
        later(Math.min(pauseMaxMs, pollMs * 2 ** failures));
      }
    };
    // It catches its own failures.
    void poll();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [asked, isOn, isPaused, attempt]);
  return {
    rows,
    error,
    isPaused,
    pause: setPaused,
    retry: useCallback(() => setAttempt((count) => count + 1), []),
  };
}

/**
 * Sorts by the arrival of the request, because the row of a long request comes late. A repeated page has the same rows again, so each
 * key is taken once.
 */
function newestFirst(before: readonly AuditRow[] = [], fresh: readonly AuditRow[]): readonly AuditRow[] {
  if (fresh.length === 0) return before;
  const rows = new Map([...before, ...fresh].map((row) => [rowKey(row), row]));
  return [...rows.values()]
    .sort((one, other) => Date.parse(other.time) - Date.parse(one.time))
    .slice(0, rowsMax);
}

export const LiveBar = ({ live: { rows, isPaused, pause } }: { readonly live: Followed }) => (
  <div class="tools-line">
    <p class="answer" role="status">
      <Chip tone={isPaused ? 'warn' : 'good'} icon={isPaused ? 'pause' : 'play'}>
        {isPaused ? w.paused : w.live}
      </Chip>{' '}
      {rows && (rows.length >= rowsMax ? w.keptNewest(formatNumber(rowsMax)) : w.followed(rows.length))}
    </p>
    <Button icon={isPaused ? 'play' : 'pause'} onClick={() => pause(!isPaused)}>
      {isPaused ? w.goOn : w.pause}
    </Button>
  </div>
);

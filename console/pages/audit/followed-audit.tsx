/** The audit log as it comes: rows of all gateways, the newest first, as many as the page keeps. */
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
/** Older rows leave the page; the list has them. */
export const keptMax = 1_000;

export interface Followed {
  /** Undefined before the first page. */
  readonly rows: readonly AuditRow[] | undefined;
  readonly error: Error | null;
  readonly isPaused: boolean;
  pause(isPaused: boolean): void;
  retry(): void;
}

/** What is polled goes on where it was: also after a pause, and after an hour in a hidden tab. */
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
          // The cast: the text above is that of a filter.
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

/** A row of a long request comes late and stands where it belongs. A page that is asked for again brings the same rows. */
function newestFirst(before: readonly AuditRow[] = [], fresh: readonly AuditRow[]): readonly AuditRow[] {
  if (fresh.length === 0) return before;
  const rows = new Map([...before, ...fresh].map((row) => [rowKey(row), row]));
  return [...rows.values()]
    .sort((one, other) => Date.parse(other.time) - Date.parse(one.time))
    .slice(0, keptMax);
}

export const LiveBar = ({ live: { rows = [], isPaused, pause } }: { readonly live: Followed }) => (
  <div class="tools-line">
    <p class="answer" role="status">
      <Chip tone={isPaused ? 'warn' : 'good'} icon={isPaused ? 'pause' : 'play'}>
        {isPaused ? w.paused : w.live}
      </Chip>{' '}
      {rows.length >= keptMax ? w.keptNewest(formatNumber(keptMax)) : w.followed(rows.length)}
    </p>
    <Button icon={isPaused ? 'play' : 'pause'} onClick={() => pause(!isPaused)}>
      {isPaused ? w.goOn : w.pause}
    </Button>
  </div>
);

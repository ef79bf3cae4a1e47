/** Values in cells: human when read, exact when pointed at. Bytes, counts, rates, times and durations. */
import { useEffect, useState } from 'preact/hooks';
import { formatNumber, language, t } from '../text/text.ts';

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** `41.2 TiB`: three digits, or whole bytes. */
export function formatBytes(bytes: number): string {
  let value = Math.abs(bytes);
  let at = 0;
  while (value >= 1_023.5 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  const digits = at === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${bytes < 0 ? '−' : ''}${formatNumber(value, { maximumFractionDigits: digits })} ${units[at]}`;
}

/** `10GiB`, in the largest unit in which it is whole, as the gateway reads sizes; '' for 0, which is unlimited. */
export function writeSize(bytes: number): string {
  if (bytes === 0) return '';
  const power = [5, 4, 3, 2, 1].find((each) => bytes % 1024 ** each === 0);
  return power === undefined ? String(bytes) : `${bytes / 1024 ** power}${units[power]}`;
}

/** `1.2 M`: short where it is large. */
export const formatCount = (count: number): string =>
  Math.abs(count) < 10_000
    ? formatNumber(count)
    : formatNumber(count, { notation: 'compact', maximumSignificantDigits: 3 });

/** Two units at most: `3 d 4 h`, `12 min`, `5 s`, `40 ms`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000)
    return `${formatNumber(Math.max(0, ms), ms < 10 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 })} ms`;
  const seconds = Math.round(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${formatNumber(value)} ${unit}`)
    .join(' ');
}

export const Bytes = ({ value }: { readonly value: number }) => (
  <span class="number" title={t.ui.bytes(formatNumber(value))}>
    {formatBytes(value)}
  </span>
);

export const Count = ({ value }: { readonly value: number }) => (
  <span class="number" title={formatNumber(value)}>
    {formatCount(value)}
  </span>
);

/** A duration in milliseconds. */
export const Duration = ({ ms }: { readonly ms: number }) => (
  <span class="number" title={`${formatNumber(ms / 1_000, { maximumFractionDigits: 3 })} s`}>
    {formatDuration(ms)}
  </span>
);

/** One clock for all times of the page. */
const listeners = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

function useMinute(): void {
  const [, tick] = useState(0);
  useEffect(() => {
    const listen = () => tick((n) => n + 1);
    listeners.add(listen);
    ticking ??= setInterval(() => {
      if (document.visibilityState === 'visible') for (const each of listeners) each();
    }, 15_000);
    return () => {
      listeners.delete(listen);
      if (listeners.size > 0) return;
      clearInterval(ticking);
      ticking = undefined;
    };
  }, []);
}

export function formatAgo(at: number, now = Date.now()): string {
  const ms = now - at;
  if (Math.abs(ms) < 5_000) return t.ui.now;
  const largest = formatDuration(Math.abs(ms)).split(' ').slice(0, 2).join(' ');
  return ms > 0 ? t.ui.ago(largest) : t.ui.inTime(largest);
}

const utc = (date: Date): string =>
  date
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, '');
const local = new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'long' });

/** A moment: relative in the cell, UTC and local time on hover. A number is milliseconds since 1970. */
export function Time({ at }: { readonly at: string | number }) {
  useMinute();
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{String(at)}</span>;
  return (
    <time
      class="number"
      dateTime={date.toISOString()}
      title={`${utc(date)} ${t.ui.utc}\n${local.format(date)} (${t.ui.local})`}
    >
      {formatAgo(date.getTime())}
    </time>
  );
}

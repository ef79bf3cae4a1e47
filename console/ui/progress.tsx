/** Long work: how much is done, how fast, and how long it will take. */
import { t } from '../text/text.ts';
import { formatBytes, formatCount, formatDuration } from './values.tsx';

interface ProgressProps {
  readonly label: string;
  readonly done: number;
  /** Unknown before the first count: the bar shows only that something runs. */
  readonly total?: number | undefined;
  readonly perSecond?: number | undefined;
  readonly etaSeconds?: number | undefined;
  readonly unit?: 'bytes' | 'count';
  readonly isDone?: boolean;
}

export function Progress({
  label,
  done,
  total,
  perSecond,
  etaSeconds,
  unit = 'count',
  isDone = false,
}: ProgressProps) {
  const format = unit === 'bytes' ? formatBytes : formatCount;
  const eta =
    etaSeconds ??
    (total !== undefined && perSecond !== undefined && perSecond > 0
      ? (total - done) / perSecond
      : undefined);
  const facts = [
    total === undefined ? format(done) : `${format(done)} / ${format(total)}`,
    ...(perSecond === undefined || isDone ? [] : [t.ui.rate(format(perSecond))]),
    isDone
      ? t.ui.done
      : eta === undefined
        ? t.ui.etaUnknown
        : t.ui.eta(formatDuration(Math.max(0, eta) * 1_000)),
  ];
  return (
    <div class="progress">
      <div class="progress-words">
        <span>{label}</span>
        <span class="quiet number">{facts.join(' · ')}</span>
      </div>
      <progress
        aria-label={label}
        {...(total === undefined && !isDone
          ? {}
          : { value: isDone ? 1 : done, max: isDone ? 1 : Math.max(total ?? 1, 1) })}
      />
    </div>
  );
}

/** A share of a whole, such as a quota. */
export function Meter({
  label,
  used,
  max,
  unit = 'bytes',
}: {
  readonly label: string;
  readonly used: number;
  readonly max: number;
  readonly unit?: 'bytes' | 'count';
}) {
  const format = unit === 'bytes' ? formatBytes : formatCount;
  const share = max > 0 ? used / max : 0;
  const tone = share >= 1 ? 'bad' : share >= 0.9 ? 'warn' : 'accent';
  const text = `${format(used)} / ${format(max)}`;
  return (
    <span class={`meter tone-${tone}`} title={text}>
      <span class="visually-hidden">
        {label}: {text}
      </span>
      <span class="meter-bar">
        <span style={{ width: `${Math.min(100, share * 100)}%` }} />
      </span>
    </span>
  );
}

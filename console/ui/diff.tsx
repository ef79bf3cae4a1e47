/** What an edit changes, by line: shown before it is saved. */
import { formatNumber, words } from '../text/text.ts';

const w = words({
  en: { changes: 'Changes to the stored document' },
  de: { changes: 'Änderungen am gespeicherten Dokument' },
});

interface Line {
  readonly is: 'same' | 'removed' | 'added';
  readonly text: string;
}

/** Cells of the table that finds the longest common part; a larger difference is shown as one block. */
const cellsMax = 1_000_000;
/** Unchanged lines that are shown around a change. */
const contextLines = 2;

function compare(before: readonly string[], after: readonly string[]): readonly Line[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end += 1;
  const old = before.slice(start, before.length - end);
  const now = after.slice(start, after.length - end);
  const same = (text: string): Line => ({ is: 'same', text });
  return [
    ...before.slice(0, start).map(same),
    ...compareMiddle(old, now),
    ...before.slice(before.length - end).map(same),
  ];
}

function compareMiddle(old: readonly string[], now: readonly string[]): readonly Line[] {
  const removed = (text: string): Line => ({ is: 'removed', text });
  const added = (text: string): Line => ({ is: 'added', text });
  const width = now.length + 1;
  if ((old.length + 1) * width > cellsMax) return [...old.map(removed), ...now.map(added)];
  // The length of the longest common part of what follows each pair of lines.
  const lengths = new Uint32Array((old.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1)
    for (let j = now.length - 1; j >= 0; j -= 1)
      lengths[i * width + j] =
        old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    const one = old[i];
    const other = now[j];
    if (one !== undefined && one === other) {
      lines.push({ is: 'same', text: one });
      i += 1;
      j += 1;
    } else if (one !== undefined && (other === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(removed(one));
      i += 1;
    } else {
      lines.push(added(other ?? ''));
      j += 1;
    }
  }
  return lines;
}

/** Stands for lines that are not shown. */
const gap: Line = { is: 'same', text: '…' };
/** Lines that are shown, at most. */
const linesMax = 200;

// Here and not in the style sheets, which every page loads.
const frameStyle = {
  margin: '4px 0 0',
  padding: '8px 12px',
  border: '1px solid var(--line)',
  borderRadius: 'var(--radius)',
  whiteSpace: 'pre-wrap',
  overflowWrap: 'anywhere',
} as const;
const lineStyle = { display: 'block', margin: '0 -12px', padding: '0 12px', textDecoration: 'none' };
const removedStyle = { ...lineStyle, background: 'var(--bad-soft)', color: 'var(--bad)' };
const addedStyle = { ...lineStyle, background: 'var(--good-soft)', color: 'var(--good)' };

interface DiffProps {
  readonly before: string;
  readonly after: string;
}

export function Diff({ before, after }: DiffProps) {
  if (before === after) return null;
  const lines = compare(before.split('\n'), after.split('\n'));
  const isNear = (index: number): boolean =>
    lines.slice(Math.max(0, index - contextLines), index + contextLines + 1).some(({ is }) => is !== 'same');
  const count = (is: Line['is']): number => lines.filter((line) => line.is === is).length;
  const shown = lines.flatMap((line, index) =>
    isNear(index) ? [line] : index > 0 && isNear(index - 1) ? [gap] : [],
  );
  return (
    <section aria-label={w.changes}>
      <p class="quiet">
        {w.changes}: <span class="tone-good">+{formatNumber(count('added'))}</span>{' '}
        <span class="tone-bad">−{formatNumber(count('removed'))}</span>
      </p>
      <pre class="code" style={frameStyle}>
        {shown.slice(0, linesMax).map((line, index) => (
          <DiffLine key={`${index} ${line.text}`} line={line} />
        ))}
        {shown.length > linesMax && <DiffLine line={gap} />}
      </pre>
    </section>
  );
}

function DiffLine({ line: { is, text } }: { readonly line: Line }) {
  if (is === 'removed') return <del style={removedStyle}>{`− ${text}\n`}</del>;
  if (is === 'added') return <ins style={addedStyle}>{`+ ${text}\n`}</ins>;
  return <span>{`  ${text}\n`}</span>;
}

/** The kept requests as a matrix: a row for each operation, a column for each band of latency, and what was refused or failed. */
import { useMemo, useState } from 'preact/hooks';
import type { Answer } from '../../app/client.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber } from '../../text/text.ts';
import { Button } from '../../ui/form.tsx';
import { ScrollRegion } from '../../ui/scroll-region.tsx';
import { Card } from '../../ui/tabs.tsx';
import { w } from './words.ts';

type Summary = Answer<'ListTraces'>['traces'][number];

/** By the least duration in ms, as the gateway divides them. */
const bands = ['0', '1', '10', '100', '1000', '10000'] as const;
type Band = (typeof bands)[number];
const outcomes = ['4xx', '5xx'] as const;
type Outcome = (typeof outcomes)[number];
type ColumnId = Band | Outcome;
const columnIds: readonly ColumnId[] = [...bands, ...outcomes];
const isBand = (id: string | undefined): id is Band => bands.some((band) => band === id);

/** What a filter by a band asks for. */
export function rangeOf(band: string | undefined): { readonly minMs?: number; readonly belowMs?: number } {
  if (!isBand(band)) return {};
  const next = bands[bands.indexOf(band) + 1];
  return { minMs: Number(band), ...(next === undefined ? {} : { belowMs: Number(next) }) };
}

const bandOf = (durationMs: number): Band => bands.findLast((band) => durationMs >= Number(band)) ?? '0';

type Counts = ReadonlyMap<ColumnId, number>;

/** Sorted by name, so that no row moves when a poll brings another count. */
function countByOperation(traces: readonly Summary[]): readonly (readonly [string, Counts])[] {
  const found = new Map<string, Map<ColumnId, number>>();
  for (const { operation, durationMs, kept } of traces) {
    const counts = found.get(operation) ?? new Map<ColumnId, number>();
    found.set(operation, counts);
    const add = (id: ColumnId) => counts.set(id, (counts.get(id) ?? 0) + 1);
    add(bandOf(durationMs));
    if (kept === 'refused') add('4xx');
    if (kept === 'failed') add('5xx');
  }
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
}

/** How much of the accent's colour a cell has, in percent. */
const heats = [8, 16, 24, 34] as const;
/** By the logarithm, because counts differ by orders of magnitude. */
function heatOf(count: number, most: number): number {
  const share = Math.log(count + 1) / Math.log(most + 1);
  return heats[Math.max(1, Math.ceil(share * heats.length)) - 1] ?? heats[0];
}

function lookOf(id: ColumnId, count: number, most: number): Pick<FilterButtonProps, 'class' | 'style'> {
  if (id === '5xx') return { class: 'matrix-cell is-failed' };
  if (id === '4xx') return { class: 'matrix-cell is-refused' };
  const background = `color-mix(in srgb, var(--accent) ${heatOf(count, most)}%, var(--card))`;
  return { class: 'matrix-cell', style: { background } };
}

const steps: Readonly<Record<string, readonly [row: number, column: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The next button in this direction: cells that count nothing have none. */
function findNext(from: HTMLElement, [down, right]: readonly [number, number]): HTMLElement | undefined {
  const cell = from.closest('td, th');
  const table = from.closest('table');
  if (!(cell instanceof HTMLTableCellElement) || table === null) return undefined;
  let row = cell.closest('tr')?.rowIndex ?? 0;
  let column = cell.cellIndex;
  while (true) {
    row += down;
    column += right;
    const next = table.rows[row]?.cells[column];
    if (next === undefined) return undefined;
    const button = next.querySelector('button');
    if (button !== null) return button;
  }
}

/** A cell without an operation is the head of a column, one without a column the head of a row. */
interface Cell {
  readonly operation?: string | undefined;
  readonly column?: ColumnId | undefined;
}
const cellId = ({ operation, column }: Cell): string => `${operation ?? ''} ${column ?? ''}`;
const firstCellId = cellId({ column: bands[0] });

interface FilterButtonProps extends Cell {
  /** The id of the cell that Tab reaches; the arrows reach the others from it. */
  readonly entry: string;
  readonly label?: string;
  readonly class: string;
  readonly style?: { readonly background: string };
  readonly text: string;
}

function FilterButton({ operation, column, entry, label, text, ...look }: FilterButtonProps) {
  const [search, setSearch] = useSearchState();
  const id = cellId({ operation, column });
  const band = isBand(column) ? column : undefined;
  const status = isBand(column) ? undefined : column;
  const isOn = search['operation'] === operation && search['band'] === band && search['status'] === status;
  const next = isOn
    ? { operation: undefined, band: undefined, status: undefined }
    : { operation, band, status };
  return (
    <button
      type="button"
      {...look}
      aria-label={label}
      title={label === undefined ? text : undefined}
      aria-pressed={isOn}
      data-cell={id}
      tabIndex={id === entry ? 0 : -1}
      onClick={() => setSearch({ ...next, slower: undefined })}
    >
      {text}
    </button>
  );
}

export function TraceMatrix({ traces }: { readonly traces: readonly Summary[] }) {
  const [search, setSearch] = useSearchState();
  const rows = useMemo(() => countByOperation(traces), [traces]);
  const [entry, setEntry] = useState('');
  const most = Math.max(1, ...rows.flatMap(([, counts]) => bands.map((band) => counts.get(band) ?? 0)));
  const isFiltered = search['operation'] !== undefined || search['band'] !== undefined;
  const ids = new Set([
    ...columnIds.map((column) => cellId({ column })),
    ...rows.flatMap(([operation, counts]) => [
      cellId({ operation }),
      ...[...counts.keys()].map((column) => cellId({ operation, column })),
    ]),
  ]);
  // A poll may have removed the button that was reached last.
  const entered = ids.has(entry) ? entry : firstCellId;
  if (rows.length === 0) return null;
  return (
    <Card
      title={w.matrix}
      class="matrix"
      actions={
        isFiltered && (
          <Button
            kind="link"
            onClick={() => setSearch({ operation: undefined, band: undefined, status: undefined })}
          >
            {w.showAll}
          </Button>
        )
      }
    >
      <ScrollRegion label={w.matrix}>
        <table
          onFocusIn={({ target }) => {
            if (target instanceof HTMLElement && target.dataset['cell'] !== undefined)
              setEntry(target.dataset['cell']);
          }}
          onKeyDown={(event) => {
            const step = steps[event.key];
            if (step === undefined || !(event.target instanceof HTMLElement)) return;
            const next = findNext(event.target, step);
            if (next === undefined) return;
            event.preventDefault();
            next.focus();
          }}
        >
          <thead>
            <tr>
              <th scope="col">{w.operation}</th>
              {columnIds.map((id) => (
                <th key={id} scope="col" class="end">
                  <FilterButton column={id} entry={entered} class="matrix-head" text={w.columns[id]} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([operation, counts]) => (
              <tr key={operation}>
                <th scope="row">
                  <FilterButton
                    operation={operation}
                    entry={entered}
                    class="matrix-head cut"
                    text={operation}
                  />
                </th>
                {columnIds.map((id) => {
                  const count = counts.get(id) ?? 0;
                  return (
                    <td key={id} class="end">
                      {count > 0 && (
                        <FilterButton
                          operation={operation}
                          column={id}
                          entry={entered}
                          {...lookOf(id, count, most)}
                          label={w.cell(operation, w.columns[id], count)}
                          text={formatNumber(count)}
                        />
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </Card>
  );
}

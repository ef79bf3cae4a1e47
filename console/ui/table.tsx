/**
 * The table of every list: sorted and filtered in the URL, virtual when it is long, with its states. Rows are 44 pixels high; numbers
 * stand at the right.
 */
import { useVirtualizer } from '@tanstack/react-virtual';
import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import { useSearchState } from '../app/url.ts';
import { language, t } from '../text/text.ts';
import { Button } from './form.tsx';
import { Icon } from './icons.tsx';
import { ScrollRegion } from './scroll-region.tsx';
import { type Column, cellClass } from './short-table.tsx';
import { Empty, Failure, Partial, Skeleton } from './states.tsx';

export interface DataTableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  /** Undefined: not read yet. */
  readonly rows: readonly Row[] | undefined;
  readonly rowKey: (row: Row) => string;
  readonly error?: unknown;
  readonly onRetry?: () => void;
  readonly empty: ComponentChildren;
  /** Opens the panel or page of a row: with a click, with Enter. */
  readonly onOpen?: (row: Row) => void;
  readonly openKey?: string | undefined;
  /** Where the list has more pages. */
  readonly more?: { readonly has: boolean; readonly busy: boolean; load(): void } | undefined;
  /** The text that the filter of this page looks into. Absent: no filter. */
  readonly filterText?: (row: Row) => string;
  /** Beside the filter. */
  readonly tools?: ComponentChildren;
  /** Tells the parameters of two tables of a page apart. */
  readonly name?: string;
  readonly skeletonRows?: number;
}

const rowHeight = 44;
/** From so many rows on, only those that are seen are in the page. */
const virtualFrom = 60;

/** Numbers by their value, texts as people of this language order them. */
function sortRows<Row>(
  rows: readonly Row[],
  column: Column<Row> | undefined,
  isDown: boolean,
): readonly Row[] {
  const value = column?.value;
  if (value === undefined) return rows;
  const sorted = rows.toSorted((one, other) => compare(value(one), value(other)));
  return isDown ? sorted.reverse() : sorted;
}

const collator = new Intl.Collator(language, { numeric: true });
const compare = (one: string | number, other: string | number): number =>
  typeof one === 'number' && typeof other === 'number'
    ? one - other
    : collator.compare(String(one), String(other));

export function DataTable<Row extends object>(props: DataTableProps<Row>) {
  const { rows, error, onRetry, filterText, name = '', empty, more, skeletonRows = 4 } = props;
  const [search] = useSearchState();
  const filter = filterText === undefined ? '' : (search[`${name}q`] ?? '').toLowerCase();
  const found = useMemo(
    () =>
      filter === '' || filterText === undefined
        ? rows
        : rows?.filter((row) => filterText(row).toLowerCase().includes(filter)),
    [rows, filter, filterText],
  );
  return (
    <div class="table-block">
      {(filterText !== undefined || props.tools !== undefined) && <Tools {...props} />}
      {error ? <Failure error={error} onRetry={onRetry} /> : null}
      {found === undefined ? (
        error ? null : (
          <Skeleton rows={skeletonRows} height={rowHeight} />
        )
      ) : rows?.length === 0 ? (
        empty
      ) : found.length === 0 ? (
        <NoMatch name={name} />
      ) : (
        <Body {...props} rows={found} />
      )}
      {more?.has && rows !== undefined && <Partial shown={rows.length} busy={more.busy} onMore={more.load} />}
    </div>
  );
}

function Tools<Row>({ filterText, tools, name = '', label }: DataTableProps<Row>) {
  const [search, setSearch] = useSearchState();
  return (
    <div class="tools">
      {filterText !== undefined && (
        <label class="filter">
          <Icon name="search" />
          <input
            class="input"
            type="search"
            data-filter
            placeholder={t.ui.filter}
            aria-label={`${t.ui.filter}: ${label}`}
            value={search[`${name}q`] ?? ''}
            onInput={(event) => setSearch({ [`${name}q`]: event.currentTarget.value })}
          />
        </label>
      )}
      {tools}
    </div>
  );
}

function NoMatch({ name }: { readonly name: string }) {
  const [, setSearch] = useSearchState();
  const clear = () => setSearch({ [`${name}q`]: undefined });
  return (
    <Empty icon="search" text={t.ui.noMatch} action={<Button onClick={clear}>{t.ui.clearFilter}</Button>} />
  );
}

function Body<Row extends object>({
  label,
  columns,
  rows,
  rowKey,
  onOpen,
  openKey,
  name = '',
}: DataTableProps<Row> & { readonly rows: readonly Row[] }) {
  const [search, setSearch] = useSearchState();
  const sort = search[`${name}sort`] ?? '';
  const [id, isDown] = sort.startsWith('-') ? [sort.slice(1), true] : [sort, false];
  const column = columns.find((each) => each.id === id);
  const sorted = useMemo(() => sortRows(rows, column, isDown), [rows, column, isDown]);
  const region = useRef<HTMLElement>(null);
  const isVirtual = sorted.length >= virtualFrom;
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => region.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    enabled: isVirtual,
  });
  const items = isVirtual ? virtual.getVirtualItems() : undefined;
  const shown = items === undefined ? sorted : items.flatMap(({ index }) => sorted[index] ?? []);
  const above = items?.[0]?.start ?? 0;
  const below = items === undefined ? 0 : virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const turn = (column: Column<Row>) => {
    const next = id !== column.id ? column.id : isDown ? undefined : `-${column.id}`;
    setSearch({ [`${name}sort`]: next });
  };
  return (
    <ScrollRegion label={label} isTall={isVirtual} region={region}>
      <table aria-rowcount={sorted.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head
                key={column.id}
                column={column}
                sorted={column.id === id ? (isDown ? 'descending' : 'ascending') : undefined}
                onTurn={() => turn(column)}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 && <Spacer height={above} columns={columns.length} />}
          {shown.map((row, index) => {
            const key = rowKey(row);
            return (
              <BodyRow
                key={key}
                row={row}
                columns={columns}
                isOpen={key === openKey}
                onOpen={onOpen}
                index={(items?.[index]?.index ?? index) + 2}
              />
            );
          })}
          {below > 0 && <Spacer height={below} columns={columns.length} />}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

const Spacer = ({ height, columns }: { readonly height: number; readonly columns: number }) => (
  <tr>
    <td class="spacer" colSpan={columns} style={{ height: `${height}px` }} />
  </tr>
);

interface HeadProps<Row> {
  readonly column: Column<Row>;
  readonly sorted: 'ascending' | 'descending' | undefined;
  readonly onTurn: () => void;
}

function Head<Row>({ column, sorted, onTurn }: HeadProps<Row>) {
  const { head, value } = column;
  return (
    <th
      scope="col"
      class={cellClass(column)}
      aria-sort={value === undefined ? undefined : (sorted ?? 'none')}
    >
      {value === undefined ? (
        head
      ) : (
        <button type="button" class="sort" onClick={onTurn}>
          {head}
          <span class={sorted === undefined ? 'sort-mark' : 'sort-mark is-on'}>
            <Icon name={sorted === 'descending' ? 'down' : 'up'} size={12} />
          </span>
        </button>
      )}
    </th>
  );
}

interface BodyRowProps<Row> {
  readonly row: Row;
  readonly columns: readonly Column<Row>[];
  readonly isOpen: boolean;
  readonly index: number;
  readonly onOpen: ((row: Row) => void) | undefined;
}

function BodyRow<Row>({ row, columns, isOpen, index, onOpen }: BodyRowProps<Row>) {
  const open = onOpen === undefined ? undefined : () => onOpen(row);
  const opener = columns.findIndex(({ isControl = false }) => !isControl);
  return (
    <tr
      data-row
      tabIndex={-1}
      aria-rowindex={index}
      class={
        [isOpen ? 'is-open' : '', open === undefined ? '' : 'is-link'].filter(Boolean).join(' ') || undefined
      }
      onClick={(event) => {
        // A link or button in a cell does its own.
        if (
          event.target instanceof Element &&
          event.target.closest('a, button, input, label, select') === null
        )
          open?.();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && event.target === event.currentTarget) open?.();
      }}
    >
      {columns.map((column, at) => (
        <td key={column.id} class={cellClass(column)}>
          {at === opener && open !== undefined ? (
            <button type="button" class="row-opener" aria-expanded={isOpen} onClick={open}>
              {column.cell(row)}
            </button>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}

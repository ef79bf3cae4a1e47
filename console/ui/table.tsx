/**
 * The table of every list: sorted and filtered in the URL, virtual when it is long, with its states. Rows are 44 pixels high; numbers
 * stand at the right.
 */
import { useVirtualizer } from '@tanstack/react-virtual';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Target, TargetLink } from '../app/page-link.tsx';
import { useSearchState } from '../app/url.ts';
import { language, t } from '../text/text.ts';
import { Button, SearchInput } from './form.tsx';
import { Icon } from './icons.tsx';
import { ScrollRegion } from './scroll-region.tsx';
import { type Column, cellClass, headOf } from './short-table.tsx';
import { Empty, Failure, Partial, Previous, Skeleton } from './states.tsx';

export interface DataTableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  /** Undefined: not read yet. */
  readonly rows: readonly Row[] | undefined;
  /** A list of any length instead of `rows`. It is not sorted, and the filter looks at what is in memory. */
  readonly window?: RowWindow<Row>;
  readonly rowKey: (row: Row) => string;
  /** The rows answer the question before, while the next one is asked. */
  readonly isPrevious?: boolean;
  readonly error?: unknown;
  readonly onRetry?: () => void;
  readonly empty: ComponentChildren;
  /** The panel or page of a row, which a click or Enter opens. */
  readonly linkTo?: (row: Row) => Target;
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

/** Rows by their index; undefined where one is being read. */
export interface RowWindow<Row> {
  readonly length: number;
  /** Those in memory. */
  readonly loaded: readonly Row[];
  at(index: number): Row | undefined;
  /** These rows are on the screen. */
  see(first: number, last: number): void;
}

const rowHeight = 44;
/**
 * Browsers limit heights, and the rows of a list are measured: of a longer one a part of so many rows can be scrolled
 * to, which moves along.
 */
const scrollRowsMax = 16_000;
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
  const {
    window,
    error,
    onRetry,
    filterText,
    name = '',
    empty,
    more,
    skeletonRows = 4,
    isPrevious = false,
  } = props;
  const [search] = useSearchState();
  const filter = filterText === undefined ? '' : (search[`${name}q`] ?? '').toLowerCase();
  // A window is read only where its rows are filtered: rows that the properties of a component hold stay in memory for long.
  const rows = window === undefined || filter === '' ? props.rows : window.loaded;
  const found = useMemo(
    () =>
      filter === '' || filterText === undefined
        ? rows
        : rows?.filter((row) => filterText(row).toLowerCase().includes(filter)),
    [rows, filter, filterText],
  );
  // An empty list has nothing to filter.
  const hasFilter = filterText !== undefined && (filter !== '' || (window ?? rows)?.length !== 0);
  return (
    <div class="table-block">
      {(hasFilter || props.tools !== undefined) && <Tools {...props} hasFilter={hasFilter} />}
      {error ? <Failure error={error} onRetry={onRetry} /> : null}
      {found === undefined ? (
        error ? null : (
          <Skeleton rows={skeletonRows} height={rowHeight} />
        )
      ) : (window ?? rows)?.length === 0 ? (
        empty
      ) : filter !== '' && found.length === 0 ? (
        <NoMatch name={name} />
      ) : (
        <Previous isPrevious={isPrevious}>
          <Body {...props} rows={found} window={filter === '' ? window : undefined} />
        </Previous>
      )}
      {more?.has && rows !== undefined && (
        <Partial shown={(window ?? rows).length} busy={more.busy} onMore={more.load} />
      )}
    </div>
  );
}

function Tools<Row>({
  hasFilter,
  tools,
  name = '',
  label,
}: DataTableProps<Row> & { readonly hasFilter: boolean }) {
  const [search, setSearch] = useSearchState();
  return (
    <div class="tools">
      {hasFilter && (
        <SearchInput
          label={`${t.ui.filter}: ${label}`}
          placeholder={t.ui.filter}
          value={search[`${name}q`] ?? ''}
          pauseMs={0}
          onSearch={(text, how) => setSearch({ [`${name}q`]: text }, { ...how, keepsForms: true })}
        />
      )}
      {tools}
    </div>
  );
}

function NoMatch({ name }: { readonly name: string }) {
  const [, setSearch] = useSearchState();
  const clear = () => setSearch({ [`${name}q`]: undefined }, { keepsForms: true });
  return (
    <Empty icon="search" text={t.ui.noMatch} action={<Button onClick={clear}>{t.ui.clearFilter}</Button>} />
  );
}

function Body<Row extends object>({
  label,
  columns,
  rows,
  window,
  rowKey,
  linkTo,
  openKey,
  name = '',
}: DataTableProps<Row> & { readonly rows: readonly Row[] }) {
  const [search, setSearch] = useSearchState();
  const sort = window === undefined ? (search[`${name}sort`] ?? '') : '';
  const [id, isDown] = sort.startsWith('-') ? [sort.slice(1), true] : [sort, false];
  const column = columns.find((each) => each.id === id);
  const sorted = useMemo(() => sortRows(rows, column, isDown), [rows, column, isDown]);
  const region = useRef<HTMLElement>(null);
  const length = window?.length ?? sorted.length;
  const isVirtual = length >= virtualFrom;
  const base = useBase(region, length);
  const virtual = useVirtualizer({
    count: Math.min(length - base.row, scrollRowsMax),
    getScrollElement: () => region.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    enabled: isVirtual,
  });
  const items = isVirtual ? virtual.getVirtualItems() : undefined;
  const firstIndex = base.row + (items?.[0]?.index ?? 0);
  const lastIndex = items === undefined ? length - 1 : base.row + (items.at(-1)?.index ?? 0);
  const see = window?.see;
  useEffect(() => see?.(firstIndex, lastIndex), [see, firstIndex, lastIndex]);
  useEffect(() => base.follow(firstIndex, lastIndex), [firstIndex, lastIndex, length]);
  const shown = Array.from({ length: Math.max(0, lastIndex - firstIndex + 1) }, (_, at) =>
    window === undefined ? sorted[firstIndex + at] : window.at(firstIndex + at),
  );
  const above = items?.[0]?.start ?? 0;
  const below = items === undefined ? 0 : virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const turn = (column: Column<Row>) => {
    const next = id !== column.id ? column.id : isDown ? undefined : `-${column.id}`;
    setSearch({ [`${name}sort`]: next }, { keepsForms: true });
  };
  return (
    <ScrollRegion label={label} isTall={isVirtual} region={region}>
      <table aria-rowcount={length + 1}>
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
          {shown.map((row, at) => {
            const index = firstIndex + at + 2;
            if (row === undefined)
              return <Spacer key={`#${index}`} height={rowHeight} columns={columns.length} isLoading />;
            const key = rowKey(row);
            return (
              <BodyRow
                key={key}
                row={row}
                columns={columns}
                isOpen={key === openKey}
                linkTo={linkTo}
                index={index}
              />
            );
          })}
          {below > 0 && <Spacer height={below} columns={columns.length} />}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

/** Which part of a list that is too long for a page can be scrolled to: it moves when what is seen comes near to its end. */
function useBase(region: { readonly current: HTMLElement | null }, length: number) {
  const [row, setRow] = useState(0);
  const scrolled = useRef(row);
  const step = scrollRowsMax / 4;
  useLayoutEffect(() => {
    const moved = row - scrolled.current;
    scrolled.current = row;
    if (moved !== 0 && region.current !== null) region.current.scrollTop -= moved * rowHeight;
  }, [row, region]);
  return {
    row,
    follow(first: number, last: number) {
      if (last > row + 3 * step && length > row + scrollRowsMax) setRow(row + 2 * step);
      else if (row > 0 && first < row + step / 2) setRow(Math.max(0, row - 2 * step));
    },
  };
}

interface SpacerProps {
  readonly height: number;
  readonly columns: number;
  /** A row that is being read. */
  readonly isLoading?: boolean;
}

const Spacer = ({ height, columns, isLoading = false }: SpacerProps) => (
  <tr>
    <td
      class={isLoading ? 'spacer is-loading' : 'spacer'}
      colSpan={columns}
      style={{ height: `${height}px` }}
    />
  </tr>
);

interface HeadProps<Row> {
  readonly column: Column<Row>;
  readonly sorted: 'ascending' | 'descending' | undefined;
  readonly onTurn: () => void;
}

function Head<Row>({ column, sorted, onTurn }: HeadProps<Row>) {
  const { value } = column;
  const head = headOf(column);
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
  readonly linkTo: ((row: Row) => Target) | undefined;
}

/** Clicks the link of a row with the keys of an event beside it; the middle button is as Ctrl or ⌘. */
function follow(event: MouseEvent | KeyboardEvent): void {
  const isMiddle = event instanceof MouseEvent && event.button === 1;
  const { currentTarget, shiftKey, ctrlKey, metaKey } = event;
  if (!(currentTarget instanceof Element)) return;
  const keys = { shiftKey, ctrlKey: ctrlKey || isMiddle, metaKey: metaKey || isMiddle };
  currentTarget
    .querySelector('.row-opener')
    ?.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ...keys }));
}

/** A link or button in a cell does its own, and a text that was just selected stays so. */
const isBesideControls = ({ target }: Event): boolean =>
  target instanceof Element &&
  target.closest('a, button, input, label, select') === null &&
  getSelection()?.isCollapsed !== false;

function BodyRow<Row>({ row, columns, isOpen, index, linkTo }: BodyRowProps<Row>) {
  const opener = columns.findIndex(({ isControl = false }) => !isControl);
  return (
    <tr
      data-row
      tabIndex={-1}
      aria-rowindex={index}
      class={
        [isOpen ? 'is-open' : '', linkTo === undefined ? '' : 'is-link'].filter(Boolean).join(' ') ||
        undefined
      }
      onClick={(event) => isBesideControls(event) && follow(event)}
      onAuxClick={(event) => event.button === 1 && isBesideControls(event) && follow(event)}
      onKeyDown={(event) => event.key === 'Enter' && event.target === event.currentTarget && follow(event)}
    >
      {columns.map((column, at) => (
        <td key={column.id} class={cellClass(column)}>
          {at === opener && linkTo !== undefined ? (
            <TargetLink to={linkTo(row)} class="row-opener" isOpen={isOpen}>
              {column.cell(row)}
            </TargetLink>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}

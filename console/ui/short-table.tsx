/** A table of a few rows on a page of cards: not sorted, not filtered, and without the library that long lists load. */
import type { ComponentChildren } from 'preact';
import { ScrollRegion } from './scroll-region.tsx';
import { Bytes, Count } from './values.tsx';

export interface Column<Row> {
  readonly id: string;
  /**
   * Elements are made anew for every rendering: an element that a memoized column held would keep, by its link to its parent, the rows of
   * the rendering that was its first, and those the columns before it.
   */
  readonly head: string | (() => ComponentChildren);
  readonly cell: (row: Row) => ComponentChildren;
  /** What it is sorted by, in a table that is sorted; a column without it is not. */
  readonly value?: (row: Row) => string | number;
  readonly align?: 'end';
  /** Left out where the screen is narrow. */
  readonly isMinor?: boolean;
  /** Left out where the screen is not wide, so that no other column is outside of the picture. */
  readonly isWideOnly?: boolean;
  /** A control of the row itself, such as its check box: the row is opened by the column after it. */
  readonly isControl?: boolean;
}

interface NumberColumn<Row> extends Pick<Column<Row>, 'head' | 'isMinor' | 'isWideOnly'> {
  readonly value: (row: Row) => number;
}

/** A column of sizes, at the right and sorted by the bytes. */
export const bytesColumn = <Row,>(id: string, column: NumberColumn<Row>): Column<Row> => ({
  ...column,
  id,
  cell: (row) => <Bytes value={column.value(row)} />,
  align: 'end',
});

/** A column of counts, at the right and sorted by them. */
export const countColumn = <Row,>(id: string, column: NumberColumn<Row>): Column<Row> => ({
  ...column,
  id,
  cell: (row) => <Count value={column.value(row)} />,
  align: 'end',
});

export const cellClass = ({
  align,
  isMinor = false,
  isWideOnly = false,
  isControl = false,
}: Pick<Column<never>, 'align' | 'isMinor' | 'isWideOnly' | 'isControl'>): string | undefined =>
  [
    align === 'end' ? 'end' : '',
    isMinor ? 'minor' : '',
    isWideOnly ? 'wide-only' : '',
    isControl ? 'control' : '',
  ]
    .filter(Boolean)
    .join(' ') || undefined;

export const headOf = ({ head }: Pick<Column<never>, 'head'>): ComponentChildren =>
  typeof head === 'string' ? head : head();

interface ShortTableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
}

export const ShortTable = <Row,>({ label, columns, rows, rowKey }: ShortTableProps<Row>) => (
  <ScrollRegion label={label}>
    <table>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.id} scope="col" class={cellClass(column)}>
              {headOf(column)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)} data-row tabIndex={-1}>
            {columns.map((column) => (
              <td key={column.id} class={cellClass(column)}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </ScrollRegion>
);

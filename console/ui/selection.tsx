/** Rows of a list that the user selects: the column with their check boxes. */
import { useMemo, useState } from 'preact/hooks';
import type { Column } from './short-table.tsx';

interface CheckCellProps {
  readonly label: string;
  readonly checked: boolean;
  readonly disabled?: boolean;
  readonly onChange: () => void;
}

/** A check box in a table; its label is for screen readers. */
export const CheckCell = ({ label, checked, disabled = false, onChange }: CheckCellProps) => (
  <label class="check-cell">
    <span class="visually-hidden">{label}</span>
    <input type="checkbox" checked={checked} disabled={disabled} onChange={onChange} />
  </label>
);

interface SelectionProps<Row> {
  readonly rows: readonly Row[] | undefined;
  readonly rowKey: (row: Row) => string;
  readonly labelOfAll: string;
  readonly labelOf: (row: Row) => string;
}

/** A row that leaves the list, such as by a filter, is not among the selected until it is back. The functions must be constant. */
export function useSelection<Row>({ rows, rowKey, labelOfAll, labelOf }: SelectionProps<Row>) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const selected = useMemo(() => rows?.filter((row) => ids.has(rowKey(row))) ?? [], [rows, ids, rowKey]);
  const column = useMemo((): Column<Row> => {
    const isAll = selected.length > 0 && selected.length === rows?.length;
    const toggle = (id: string) => {
      const next = new Set(ids);
      if (!next.delete(id)) next.add(id);
      setIds(next);
    };
    return {
      id: 'select',
      isControl: true,
      head: () => (
        <CheckCell
          label={labelOfAll}
          checked={isAll}
          onChange={() => setIds(new Set(isAll ? [] : rows?.map(rowKey)))}
        />
      ),
      cell: (row) => (
        <CheckCell label={labelOf(row)} checked={ids.has(rowKey(row))} onChange={() => toggle(rowKey(row))} />
      ),
    };
  }, [rows, selected, ids, rowKey, labelOfAll, labelOf]);
  return { selected, column, clear: () => setIds(new Set()) };
}

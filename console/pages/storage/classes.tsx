/** Bytes and objects by storage class, as the sampler published them: rows and columns, for the overview too. */
import type { Answer } from '../../app/client.ts';
import { formatNumber } from '../../text/text.ts';
import { bytesColumn, type Column, countColumn } from '../../ui/short-table.tsx';
import { classWords as w } from './class-words.ts';

export interface ClassRow {
  readonly class: string;
  readonly bytes: number;
  readonly objects: number;
  readonly pool: string;
  readonly share: number;
}

export function classRows({ classes, pools_by_class }: Answer<'GetStorageClasses'>): readonly ClassRow[] {
  const total = classes.reduce((sum, { bytes }) => sum + bytes, 0);
  return classes.map((row) => ({
    ...row,
    pool: pools_by_class[row.class] ?? '',
    share: total === 0 ? 0 : row.bytes / total,
  }));
}

export const classColumns: readonly Column<ClassRow>[] = [
  {
    id: 'class',
    head: w.class,
    cell: (row) => <span class="code">{row.class}</span>,
    value: (row) => row.class,
  },
  {
    id: 'pool',
    head: w.pool,
    cell: ({ pool }) =>
      pool === '' ? <span class="quiet">{w.unpinned}</span> : <span class="code">{pool}</span>,
    value: ({ pool }) => pool,
    isMinor: true,
  },
  countColumn('objects', { head: w.objects, value: ({ objects }) => objects }),
  bytesColumn('bytes', { head: w.bytes, value: ({ bytes }) => bytes }),
  {
    id: 'share',
    head: w.share,
    align: 'end',
    cell: ({ share }) => (
      <span class="number">{formatNumber(share, { style: 'percent', maximumFractionDigits: 1 })}</span>
    ),
    value: ({ share }) => share,
  },
];

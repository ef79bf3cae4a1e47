/** Schema and first rows of a Parquet file, by range reads of its footer and of the columns' first pages. A chunk of its own. */
import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetSchema,
  type SchemaTree,
} from 'hyparquet';
// Not `parquetReadObjects`: its filters and indexes are a third of the library, and a preview has no filter.
import { parquetPlanGroup, prefetchAsyncBuffer } from 'hyparquet/src/plan.js';
import { assembleAsync, asyncGroupToRows, readRowGroup } from 'hyparquet/src/rowgroup.js';
import type { Cells } from './preview-document.ts';

const rowsMax = 50;
/** All that is read of one file. */
export const readMax = 32 * 1_048_576;

export interface ParquetRead {
  readonly rows: number;
  readonly columns: readonly string[];
  /** Name and type of each column, nested ones by their path. */
  readonly schema: Cells;
  readonly first: Cells;
  /** Why there are no rows. */
  readonly failed?: string;
}

type Slice = (start: number, end: number) => Promise<ArrayBuffer>;

export async function readParquet(byteLength: number, slice: Slice): Promise<ParquetRead> {
  let read = 0;
  const file = {
    byteLength,
    async slice(start: number, end = byteLength) {
      read += end - start;
      if (read > readMax) throw new RangeError('more than 32 MiB would have to be read');
      return slice(start, end);
    },
  };
  const metadata = await parquetMetadataAsync(file);
  const root = parquetSchema(metadata);
  const columns = root.children.map(({ element }) => element.name);
  const schema: string[][] = [];
  const walk = (node: typeof root, path: readonly string[]) => {
    for (const child of node.children) {
      const {
        name,
        type,
        logical_type: logical,
        converted_type: converted,
        repetition_type: repetition,
      } = child.element;
      const kind = [logical?.type ?? converted ?? type ?? 'group', repetition?.toLowerCase()]
        .filter(Boolean)
        .join(', ');
      schema.push([[...path, name].join('.'), kind]);
      walk(child, [...path, name]);
    }
  };
  walk(root, []);
  const base = { rows: Number(metadata.num_rows), columns, schema };
  try {
    const found = await firstRows(file, metadata, root);
    return { ...base, first: found.map((each) => columns.map((column) => textOf(each[column]))) };
  } catch (cause) {
    return { ...base, first: [], failed: cause instanceof Error ? cause.message : String(cause) };
  }
}

type Row = Readonly<Record<string, unknown>>;

/** Reads row groups, one after another, until there are `rowsMax` rows. */
async function firstRows(file: AsyncBuffer, metadata: FileMetaData, schema: SchemaTree): Promise<Row[]> {
  const rows: Row[] = [];
  for (const rowGroup of metadata.row_groups) {
    const groupRows = Number(rowGroup.num_rows);
    const rowEnd = Math.min(rowsMax - rows.length, groupRows);
    if (rowEnd === 0) continue;
    const { groups, fetches } = parquetPlanGroup({
      rowGroup,
      groupStart: 0,
      groupRows,
      ranges: [[0, rowEnd]],
    });
    const plan = { metadata, rowStart: 0, rowEnd, fetches, groups };
    const options = { file: prefetchAsyncBuffer(file, { fetches }), metadata };
    for (const group of groups) {
      const read = assembleAsync(readRowGroup(options, plan, group), schema);
      // All columns are observed before rows are assembled, so that no rejection of a second column stays unhandled.
      await Promise.all(read.asyncColumns.map(({ data }) => data));
      rows.push(...(await asyncGroupToRows(read, 0, rowEnd, undefined, 'object')));
    }
  }
  return rows;
}

const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== 'object') return String(value);
  return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each));
};

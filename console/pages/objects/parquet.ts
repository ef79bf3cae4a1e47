/** Schema and first rows of a Parquet file, by range reads of its footer and of the columns' first pages. A chunk of its own. */
import { parquetMetadataAsync, parquetReadObjects, parquetSchema } from 'hyparquet';
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
    const found = await parquetReadObjects({
      file,
      metadata,
      rowStart: 0,
      rowEnd: Math.min(rowsMax, base.rows),
    });
    return { ...base, first: found.map((each) => columns.map((column) => textOf(each[column]))) };
  } catch (cause) {
    return { ...base, first: [], failed: cause instanceof Error ? cause.message : String(cause) };
  }
}

const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== 'object') return String(value);
  return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each));
};

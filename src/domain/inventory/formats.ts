/** The formats of inventories: CSV and Parquet. */
import type { ObjectRow } from '../../metadata/tables.ts';
import type { InventoryColumn, InventoryFacts, Value } from './rows.ts';

// Data files as gzipped CSV: every value is quoted, keys are percent-encoded.

export const csvSchema = (columns: readonly InventoryColumn[]): string =>
  columns.map(({ csv }) => csv).join(', ');

const encodeKey = (key: string): string => encodeURIComponent(key).replaceAll('%2F', '/');

function formatValue({ csv, type }: InventoryColumn, value: Value): string {
  if (value === undefined) return '""';
  if (csv === 'Key') return `"${encodeKey(String(value))}"`;
  if (type === 'moment') return `"${new Date(Number(value)).toISOString()}"`;
  return `"${String(value).replaceAll('"', '""')}"`;
}

export async function* csvGzip(
  pages: AsyncIterable<readonly ObjectRow[]>,
  { columns, facts }: { readonly columns: readonly InventoryColumn[]; readonly facts: InventoryFacts },
): AsyncGenerator<Uint8Array> {
  yield* gzip(lines(pages, { columns, facts }));
}

async function* lines(
  pages: AsyncIterable<readonly ObjectRow[]>,
  { columns, facts }: { readonly columns: readonly InventoryColumn[]; readonly facts: InventoryFacts },
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  for await (const rows of pages) {
    let text = '';
    for (const row of rows)
      text += `${columns.map((column) => formatValue(column, column.read(row, facts))).join(',')}\n`;
    yield encoder.encode(text);
  }
}

async function* gzip(source: AsyncIterable<Uint8Array<ArrayBuffer>>): AsyncGenerator<Uint8Array> {
  const { readable, writable } = new CompressionStream('gzip');
  const writer = writable.getWriter();
  let failed: { readonly cause: unknown } | undefined;
  const pump = async (): Promise<void> => {
    try {
      for await (const bytes of source) await writer.write(bytes);
      await writer.close();
    } catch (cause) {
      failed = { cause };
      await writer.abort(cause).catch(() => {});
    }
  };
  const pumped = pump();
  const reader = readable.getReader();
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
  } catch (cause) {
    // The stream may report a failure of its source in words of its own.
    throw failed === undefined ? cause : failed.cause;
  } finally {
    // A consumer that stops early ends the source too.
    await reader.cancel().catch(() => {});
    await pumped;
  }
}

// Data files as Parquet: row groups that are small, so that little is held in memory, compressed by Snappy.

/**
 * Rows of a group: few, because a group is encoded in one turn of the event loop; and not fewer, because the end of the file describes
 * each group, also in one turn.
 */
const groupRows = 4_000;

/** Columns without repetitions: looking for them costs more than the rest of the encoding. */
const isUnique = ({ csv }: InventoryColumn): boolean => ['Key', 'VersionId', 'ETag'].includes(csv);

const physical = { text: 'BYTE_ARRAY', integer: 'INT64', boolean: 'BOOLEAN', moment: 'INT64' } as const;
const converted = { text: 'UTF8', moment: 'TIMESTAMP_MILLIS' } as const;
const schemaWords = {
  text: ['binary', ' (UTF8)'],
  integer: ['int64', ''],
  boolean: ['boolean', ''],
  moment: ['int64', ' (TIMESTAMP_MILLIS)'],
} as const;

const isRequired = ({ csv }: InventoryColumn): boolean => csv === 'Bucket' || csv === 'Key';

/** The schema as the manifest states it. */
export function parquetSchema(columns: readonly InventoryColumn[]): string {
  const fields = columns.map((column) => {
    const [type, logical] = schemaWords[column.type];
    return `${isRequired(column) ? 'required' : 'optional'} ${type} ${column.parquet}${logical};`;
  });
  return `message s3.inventory { ${fields.join(' ')} }`;
}

/** Parquet's 64-bit integers are `bigint` in JavaScript. */
function toCell({ type }: InventoryColumn, value: Value): string | bigint | boolean | undefined {
  if (value === undefined) return undefined;
  return type === 'integer' || type === 'moment' ? BigInt(value) : (value as string | boolean);
}

export async function* parquet(
  pages: AsyncIterable<readonly ObjectRow[]>,
  { columns, facts }: { readonly columns: readonly InventoryColumn[]; readonly facts: InventoryFacts },
): AsyncGenerator<Uint8Array> {
  // Loaded only where it is used: it takes 40 ms, and the gateway starts without it.
  const { ByteWriter } = await import('hyparquet-writer/src/bytewriter.js');
  const { ParquetWriter } = await import('hyparquet-writer/src/parquet-writer.js');
  const bytes = new ByteWriter(64 * 1024);
  const writer = new ParquetWriter({
    writer: bytes,
    createdBy: 'sluice',
    schema: [
      { name: 's3.inventory', num_children: columns.length },
      ...columns.map((column) => ({
        name: column.parquet,
        type: physical[column.type],
        repetition_type: isRequired(column) ? ('REQUIRED' as const) : ('OPTIONAL' as const),
        ...(column.type in converted
          ? { converted_type: converted[column.type as keyof typeof converted] }
          : {}),
      })),
    ],
  });
  const take = (): Uint8Array => {
    const taken = bytes.getBytes().slice();
    bytes.index = 0;
    return taken;
  };
  let cells = columns.map((): ReturnType<typeof toCell>[] => []);
  const flush = async (): Promise<Uint8Array> => {
    const columnData = columns.map((column, n) => ({
      name: column.parquet,
      data: cells[n] ?? [],
      offsetIndex: false,
      ...(isUnique(column) ? { encoding: 'PLAIN' as const } : {}),
    }));
    const rows = cells[0]?.length ?? 0;
    cells = columns.map(() => []);
    await writer.write({ columnData, rowGroupSize: Math.max(1, rows) });
    return take();
  };
  for await (const rows of pages) {
    for (const row of rows)
      for (const [n, column] of columns.entries()) cells[n]?.push(toCell(column, column.read(row, facts)));
    if ((cells[0]?.length ?? 0) >= groupRows) yield await flush();
  }
  if ((cells[0]?.length ?? 0) > 0) yield await flush();
  await writer.finish();
  yield take();
}

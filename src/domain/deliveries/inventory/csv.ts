/** Data files as gzipped CSV: every value is quoted, keys are percent-encoded. */
import type { ObjectRow } from '../../../metadata/tables.ts';
import type { InventoryColumn, InventoryFacts, Value } from './fields.ts';

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

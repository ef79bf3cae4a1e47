/** Rows as lines of text, the same for each metadata backend, and a checksum of many that does not depend on their order. */
import { createHash } from 'node:crypto';
import type { AnyTable, CopiedRow } from '../../ports/metadata-store.ts';

type Columns = Readonly<Record<string, unknown>>;

/** Columns in the order of the table. Absent ones are left out, and so are those of a counter that are 0. */
export function writeLine(table: AnyTable, { row, expiresAt }: CopiedRow): string {
  const columns: Record<string, unknown> = {};
  for (const [name, type] of Object.entries(table.columns)) {
    const value = (row as Columns)[name];
    const isKey = table.partition.includes(name) || table.sort.some((each: string) => each.endsWith(name));
    if (value === undefined || (table.kind === 'counter' && value === 0 && !isKey)) continue;
    columns[name] = type === 'blob' ? Buffer.from(value as Uint8Array).toString('base64') : canonical(value);
  }
  return JSON.stringify(expiresAt === undefined ? [columns] : [columns, expiresAt]);
}

/** Members of JSON by name, because engines keep them in different orders. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, canonical(each)]),
  );
}

export function readLine(table: AnyTable, line: string): CopiedRow {
  const [columns, expiresAt] = JSON.parse(line) as readonly [Columns, number?];
  const row: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(columns))
    row[name] =
      table.columns[name] === 'blob' ? new Uint8Array(Buffer.from(value as string, 'base64')) : value;
  return expiresAt === undefined ? { row } : { row, expiresAt };
}

const modulus = 2n ** 64n;

/** The number of lines and the sum of their hashes. */
export class Checksum {
  rows = 0;
  #sum = 0n;

  constructor(from?: { readonly rows: number; readonly sum: string }) {
    this.rows = from?.rows ?? 0;
    this.#sum = BigInt(`0x${from?.sum ?? '0'}`);
  }

  add(line: string): void {
    this.rows += 1;
    this.#sum = (this.#sum + createHash('sha256').update(line).digest().readBigUInt64BE()) % modulus;
  }

  get sum(): string {
    return this.#sum.toString(16);
  }
}

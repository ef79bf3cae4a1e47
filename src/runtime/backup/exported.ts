/** An export of metadata: a directory with the rows of each table in parts, and `export.json`, which says what is complete. */

import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LeaseRow } from '../../metadata/records/processes.ts';
import { tables } from '../../metadata/tables.ts';
import type { AnyTable, CopiedRow } from '../../ports/metadata-store.ts';
import { flush } from './copy-chunks.ts';

export interface ExportedTable {
  readonly parts: number;
  /** Without rows that expire. */
  readonly rows: number;
  readonly sum: string;
  readonly isComplete: boolean;
  /** Where the next part begins. */
  readonly position?: string;
}

export interface Exported {
  readonly format: 1;
  /** The id of the installation. */
  readonly installation: string;
  /** The generations of all leases (`formatLeases`): a gateway that has run since raises one of them. */
  readonly leases: string;
  readonly tables: Readonly<Record<string, ExportedTable>>;
}

/** The rows there and those of the export do not belong together. */
export class ImportConflict extends Error {}

const exportFile = 'export.json';

type LeaseGeneration = Pick<LeaseRow, 'name' | 'generation'>;

export const formatLeases = (found: readonly LeaseGeneration[]): string =>
  found
    .map(({ name, generation }) => `${name} ${generation}`)
    .sort()
    .join(', ');

export function parseLeases(text: string): LeaseGeneration[] {
  const leases = text === '' ? [] : text.split(', ');
  return leases.map((lease) => {
    const [name = '', generation] = lease.split(' ');
    return { name, generation: Number(generation) };
  });
}

/** Rows about running processes and log-ins, which mean nothing in another store. Of leases, `Exported.leases` has the generations. */
const omitted: ReadonlySet<AnyTable> = new Set<AnyTable>([
  tables.leases,
  tables.heartbeats,
  tables.gateways,
  tables.logins,
]);
/** Buckets come first: they say how many shards their objects have. */
export const exportedTables: readonly AnyTable[] = Object.values<AnyTable>(tables)
  .filter((table) => !omitted.has(table))
  .sort((a, b) => Number(b.name === 'buckets') - Number(a.name === 'buckets'));

export const partPath = (directory: string, table: string, part: number): string =>
  join(directory, `${table}.${part}.jsonl`);

export async function readExported(directory: string): Promise<Exported | undefined> {
  const text = await readFile(join(directory, exportFile), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const found = JSON.parse(text) as Exported;
  return found.format === 1 ? found : undefined;
}

export const writeExported = (directory: string, exported: Exported): Promise<void> =>
  writeWhole(join(directory, exportFile), `${JSON.stringify(exported, undefined, 2)}\n`);

/** A reader sees the former file or all of the new one. */
export async function writeWhole(path: string, text: string): Promise<void> {
  await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
  await writeFile(`${path}.part`, text, { mode: 0o600 });
  await flush(`${path}.part`);
  await rename(`${path}.part`, path);
}

// Rows as lines of text, the same for each metadata backend, and a checksum of many that does not depend on their order.

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

/**
 * Puts the rows of an export into a metadata store that has no buckets yet, and then compares all of them. Each put expects that the row is
 * absent and accepts an equal one, so an import that was cut short is begun again and continues.
 */
import { readFile } from 'node:fs/promises';
import { inParallel } from '../../base/concurrency.ts';
import { raiseLease } from '../../metadata/background/leases.ts';
import { findInstallation } from '../../metadata/installation.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { type BucketRow, tables } from '../../metadata/tables.ts';
import type { AnyTable, At, CopiedRow, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import type { CommandWatch } from '../cli/command-watch.ts';
import {
  Checksum,
  type Exported,
  exportedTables,
  ImportConflict,
  parseLeases,
  partPath,
  readLine,
  writeLine,
} from './exported.ts';

type Columns = Readonly<Record<string, unknown>>;
/** Commits at a time: they share flushes, and the rounds of an engine. */
const commitsAtOnce = 64;
const sideChangesPerWrite = 64;

export interface TableDifference {
  readonly table: string;
  readonly expected: number;
  readonly found: number;
}

interface Import {
  readonly metadata: MetadataStore;
  readonly from: string;
  readonly signal: AbortSignal;
  readonly shards: Map<string, Pick<BucketRow, 'shards'>>;
  /** Gets the number of rows that were put, or compared. */
  readonly count: (rows: number) => void;
}

/** @throws ImportConflict where the store has another row under a key of the export; the signal's reason */
export async function importMetadata(
  metadata: MetadataStore,
  exported: Exported,
  {
    from,
    signal,
    watch,
  }: { readonly from: string; readonly signal: AbortSignal; readonly watch?: CommandWatch | undefined },
): Promise<readonly TableDifference[]> {
  const puts = countRows(watch, 'meta import', exported);
  const run: Import = { metadata, from, signal, shards: new Map(), count: puts.count };
  const buckets: BucketRow[] = [];
  await assertSameInstallation(run, exported);
  for (const table of exportedTables) {
    for (let part = 0; part < (exported.tables[table.name]?.parts ?? 0); part += 1) {
      signal.throwIfAborted();
      const text = await readFile(partPath(from, table.name, part), 'utf8');
      const rows = text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => readLine(table, line));
      if (table.name === 'buckets')
        for (const { row } of rows) {
          buckets.push(row as BucketRow);
          run.shards.set((row as BucketRow).id, row as BucketRow);
        }
      else if (part === 0) await assertNoOtherBuckets(run);
      await putters[table.kind as keyof typeof putters](run, table, rows);
    }
  }
  // Commits of objects state the generation of their bucket, which its partition has to have.
  for (const bucket of buckets) await metadata.raiseFence(objectsAt(bucket), bucket.generation);
  // The rows of a worker state the generation of its last leader. A leader with a lower one would lose its lease at once.
  for (const lease of parseLeases(exported.leases)) await raiseLease(metadata, lease);
  puts.end();
  const compares = countRows(watch, 'meta import: compare', exported);
  const differences = await compare({ ...run, count: compares.count }, exported);
  compares.end();
  return differences;
}

/** The rows of an export are known, up to those that expire. */
function countRows(watch: CommandWatch | undefined, kind: string, { tables: exported }: Exported) {
  const all = Object.values(exported).reduce((sum, { rows }) => sum + rows, 0);
  let done = 0;
  const amounts = () => ({ done: { count: done }, left: { count: Math.max(0, all - done) } });
  watch?.begin({ kind, of: 'rows', paced: 'count' }, amounts());
  return {
    count(rows: number): void {
      done += rows;
      if (watch?.isDue === true) watch.show(amounts());
    },
    end: () => watch?.end({ count: done }),
  };
}

async function assertSameInstallation({ metadata }: Import, { installation }: Exported): Promise<void> {
  const there = (await findInstallation(metadata))?.state.id;
  if (there === undefined || there === installation) return;
  throw new ImportConflict(`this store belongs to the installation ${there}, the export to ${installation}`);
}

/** Before anything but buckets is written, because counters are moved by differences. */
async function assertNoOtherBuckets({ metadata, shards }: Import): Promise<void> {
  for await (const { rows } of metadata.everyRow?.(tables.buckets) ?? [])
    for (const { row } of rows) {
      const { id, name } = row as BucketRow;
      if (!shards.has(id))
        throw new ImportConflict(`this store has a bucket ${name} that is not in the export`);
    }
}

function placeOf({ shards }: Import, table: AnyTable, row: Columns): At<AnyTable> {
  const place = Object.fromEntries((table.partition as readonly string[]).map((name) => [name, row[name]]));
  if (table.spreadBy === undefined) return { table, in: place };
  return { table, in: place, ways: shards.get(String(row['bucketId']))?.shards ?? 1 };
}

const sortOf = (table: AnyTable, row: Columns): Columns =>
  Object.fromEntries(
    (table.sort as readonly string[]).map((name) => name.replace(/^-/, '')).map((name) => [name, row[name]]),
  );

type Put = (run: Import, table: AnyTable, rows: readonly CopiedRow[]) => Promise<void>;

const putters = {
  async conditional(run, table, rows) {
    await inParallel(commitsAtOnce, rows, async (copied) => {
      run.signal.throwIfAborted();
      const at = placeOf(run, table, copied.row as Columns);
      const { row: put, ...expiry } = copied;
      const outcome = await run.metadata.commit(at, [{ put, expect: 'absent', ...expiry }]);
      if (!outcome.applied) await assertSame(run, at, copied);
      run.count(1);
    });
  },
  async plain(run, table, rows) {
    const batches = Array.from({ length: Math.ceil(rows.length / sideChangesPerWrite) }, (_, i) =>
      rows.slice(i * sideChangesPerWrite, (i + 1) * sideChangesPerWrite),
    );
    await inParallel(commitsAtOnce / 8, batches, async (batch) => {
      const changes = batch.map(({ row, ...expiry }): SideChange => {
        return { at: placeOf(run, table, row as Columns), put: row, ...expiry };
      });
      await run.metadata.apply(changes);
      run.count(batch.length);
    });
  },
  async counter(run, table, rows) {
    for (const { row } of rows) {
      const at = placeOf(run, table, row as Columns);
      const key = sortOf(table, row as Columns);
      // A line leaves out columns that are 0. Adding 0 creates a row that is absent.
      const there = (await run.metadata.get(at, key))?.row as Columns | undefined;
      const amounts = Object.entries(table.columns).filter(
        ([name, type]) => type === 'int' && !(name in key) && !(name in at.in),
      );
      const by = Object.fromEntries(
        amounts.map(([name]) => {
          const [imported, former] = [numberIn(row as Columns, name), numberIn(there, name)];
          return [name, table.maxima?.includes(name) ? imported : imported - former];
        }),
      );
      const isSame = amounts.every(([name]) => numberIn(row as Columns, name) === numberIn(there, name));
      if (there === undefined || !isSame) await run.metadata.apply([{ at, add: key, by }]);
      run.count(1);
    }
  },
} as const satisfies Readonly<Record<AnyTable['kind'], Put>>;

const numberIn = (row: Columns | undefined, column: string): number => Number(row?.[column] ?? 0);

async function assertSame({ metadata }: Import, at: At<AnyTable>, { row }: CopiedRow): Promise<void> {
  const key = sortOf(at.table, row as Columns);
  const there = await metadata.get(at, key);
  const isSame =
    there !== undefined && writeLine(at.table, { row: there.row }) === writeLine(at.table, { row });
  if (!isSame)
    throw new ImportConflict(
      `${at.table.name} ${JSON.stringify({ ...at.in, ...key })} is different here: import into a store that was not used`,
    );
}

/** The tables whose rows differ. */
async function compare(run: Import, exported: Exported): Promise<readonly TableDifference[]> {
  const differences: TableDifference[] = [];
  for (const table of exportedTables) {
    const checksum = new Checksum();
    for await (const { rows } of run.metadata.everyRow?.(table) ?? []) {
      run.signal.throwIfAborted();
      for (const row of rows) if (row.expiresAt === undefined) checksum.add(writeLine(table, row));
      run.count(rows.length);
    }
    const requested = exported.tables[table.name];
    if (checksum.rows === (requested?.rows ?? 0) && checksum.sum === (requested?.sum ?? '0')) continue;
    differences.push({ table: table.name, expected: requested?.rows ?? 0, found: checksum.rows });
  }
  return differences;
}

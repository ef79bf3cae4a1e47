/**
 * `sluice meta export` and `sluice meta import`: moves metadata from one backend to another while no gateway runs. An export is
 * a directory with the rows of each table in parts, and `export.json`, which says what is complete.
 */

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasEnded } from '../../backends/process-identity.ts';
import { inParallel } from '../../base/concurrency.ts';
import type { Context } from '../../context.ts';
import { raiseLease } from '../../metadata/background/leases.ts';
import { findInstallation } from '../../metadata/installation.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { type LeaseRow, leases } from '../../metadata/records/processes.ts';
import { type BucketRow, tables } from '../../metadata/tables.ts';
import type {
  AnyTable,
  At,
  CopiedRow,
  MetadataStore,
  RowPage,
  SideChange,
} from '../../ports/metadata-store.ts';
import { type CommandWatch, withWatch } from '../cli/command-watch.ts';
import { describeStop, stopSignal } from '../cli/stop-signal.ts';
import { compose } from '../compose/compose.ts';
import type { Configuration } from '../compose/configuration.ts';
import { makePrivateDirectory } from '../secret-file.ts';
import { flagValue, print, refuse } from './cli-backup.ts';
import { flush } from './copy-chunks.ts';

const durable = ({ config }: Configuration): readonly string[] =>
  config.SVC_META_BACKEND === 'memory'
    ? ['this command is for metadata that is kept: set SVC_META_BACKEND']
    : [];

export function exportFaults(configuration: Configuration, own: readonly string[]): readonly string[] {
  const to = flagValue(own, '--to=');
  return [
    ...durable(configuration),
    ...(to === undefined ? ['name the directory of the export: --to=DIRECTORY'] : []),
  ];
}

export function importFaults(configuration: Configuration, own: readonly string[]): readonly string[] {
  const from = flagValue(own, '--from=');
  if (from === undefined)
    return [...durable(configuration), 'name the directory of the export: --from=DIRECTORY'];
  return [...durable(configuration), ...(existsSync(from) ? [] : [`there is no directory ${from}`])];
}

/** Resolves with the exit code. */
export const runExport = (configuration: Configuration, own: readonly string[]): Promise<number> =>
  withMetadata(configuration, own, async ({ context, watch, signal }) => {
    const why = (await runningGateway(context)) ?? (await unfinished(context));
    if (why !== undefined) return refuse(why);
    const to = flagValue(own, '--to=') ?? '';
    const exported = await exportMetadata(context.metadata, { to, watch, signal });
    watch?.clear();
    const rows = Object.values(exported.tables).reduce((sum, table) => sum + table.rows, 0);
    print(own.includes('--json') ? JSON.stringify(exported) : `${rows} rows exported to ${to}`);
    return 0;
  });

/** Resolves with the exit code. */
export async function runImport(configuration: Configuration, own: readonly string[]): Promise<number> {
  const from = flagValue(own, '--from=') ?? '';
  // Before the store is opened, which would create files.
  const exported = await readExported(from).catch((cause: unknown) => {
    if (cause instanceof ExportDamaged) return cause;
    throw cause;
  });
  if (exported instanceof ExportDamaged) return refuse(exported.message);
  if (exported === undefined) return refuse(`${from} has no export.json that this version reads`);
  const incomplete = explainIncomplete(exported, from);
  if (incomplete !== undefined) return refuse(incomplete);
  return withMetadata(configuration, own, async ({ context, watch, signal }) => {
    const why = await runningGateway(context);
    if (why !== undefined) return refuse(why);
    const differences = await importMetadata(context.metadata, exported, { from, watch, signal });
    watch?.clear();
    const rows = Object.values(exported.tables).reduce((sum, table) => sum + table.rows, 0);
    if (own.includes('--json')) print(JSON.stringify({ rows, differences }));
    else {
      for (const { table, expected, found } of differences)
        print(`${table} differs from the export: ${expected} rows there, ${found} here`);
      if (differences.length === 0) print(`${rows} rows imported and compared`);
    }
    return differences.length === 0 ? 0 : 1;
  });
}

interface Working {
  readonly context: Context;
  readonly watch: CommandWatch | undefined;
  readonly signal: AbortSignal;
}

async function withMetadata(
  { config }: Configuration,
  own: readonly string[],
  work: (working: Working) => Promise<number>,
): Promise<number> {
  const signal = stopSignal('the next run continues');
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    return await withWatch(own, (watch) => work({ context, watch, signal }));
  } catch (cause) {
    if (signal.aborted) return refuse(describeStop(signal));
    if (cause instanceof ImportConflict || cause instanceof ExportDamaged) return refuse(cause.message);
    throw cause;
  } finally {
    await close();
  }
}

/** Rows change while a gateway runs, so that an export would be of no single moment. */
async function runningGateway({ metadata }: Context): Promise<string | undefined> {
  const now = await metadata.now();
  for await (const { rows } of metadata.everyRow?.(leases) ?? [])
    for (const { row } of rows) {
      const { name, expires, process } = row as LeaseRow;
      if (expires > now && !(process !== undefined && hasEnded(process)))
        return `a gateway holds the lease ${name} for ${Math.ceil((expires - now) / 1000)} seconds more: stop all gateways first, or wait that long after a crash`;
    }
  return undefined;
}

async function unfinished({ metadata }: Context): Promise<string | undefined> {
  for (const table of Object.values(tables))
    if ((await metadata.hasPendingPuts?.(table)) === true)
      return 'a gateway ended in the middle of a commit: start one for two minutes, stop it, and export then';
  for await (const { rows } of metadata.everyRow?.(tables.buckets) ?? [])
    for (const { row } of rows) {
      const { name, splittingTo } = row as { readonly name: string; readonly splittingTo?: number };
      if (splittingTo !== undefined)
        return `the shards of the bucket ${name} are being split: let a gateway finish that first`;
    }
  return undefined;
}

// The files of an export.

interface ExportedTable {
  readonly parts: number;
  /** Without rows that expire. */
  readonly rows: number;
  readonly sum: string;
  readonly isComplete: boolean;
  /** Where the next part begins. */
  readonly position?: string;
}

interface Exported {
  readonly format: 1;
  /** The id of the installation. */
  readonly installation: string;
  /** The generations of all leases (`formatLeases`): a gateway that has run since raises one of them. */
  readonly leases: string;
  readonly tables: Readonly<Record<string, ExportedTable>>;
  /** Whether the export has every table, and no gateway has run meanwhile. Absent in exports of earlier builds. */
  readonly isComplete?: boolean;
}

/** The rows there and those of the export do not belong together. */
export class ImportConflict extends Error {}

/** A file of an export is not what was written. */
class ExportDamaged extends Error {
  constructor(place: string, cause?: unknown) {
    super(`${place} is damaged: run sluice meta export again, to another directory`, { cause });
  }
}

const exportFile = 'export.json';

type LeaseGeneration = Pick<LeaseRow, 'name' | 'generation'>;

const formatLeases = (found: readonly LeaseGeneration[]): string =>
  found
    .map(({ name, generation }) => `${name} ${generation}`)
    .sort()
    .join(', ');

function parseLeases(text: string): LeaseGeneration[] {
  const leases = text === '' ? [] : text.split(', ');
  return leases.map((lease) => {
    const [name = '', generation] = lease.split(' ');
    return { name, generation: Number(generation) };
  });
}

/** Buckets come first: they say how many shards their objects have. Of leases, `Exported.leases` has the generations. */
export const exportedTables: readonly AnyTable[] = Object.values<AnyTable>(tables)
  .filter(({ isExported }) => isExported)
  .sort((a, b) => Number(b.name === 'buckets') - Number(a.name === 'buckets'));

export const partPath = (directory: string, table: string, part: number): string =>
  join(directory, `${table}.${part}.jsonl`);

async function readExported(directory: string): Promise<Exported | undefined> {
  const path = join(directory, exportFile);
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const found = parse(text, path) as Partial<Exported> | null;
  if (found?.format !== 1) return undefined;
  if (typeof found.tables !== 'object' || typeof found.leases !== 'string') throw new ExportDamaged(path);
  return found as Exported;
}

/** Why an import of the export would leave out rows. */
function explainIncomplete({ isComplete, tables: found }: Exported, from: string): string | undefined {
  const unfinished = exportedTables.some(({ name }) => found[name]?.isComplete !== true);
  if (isComplete !== true || unfinished)
    return `the export in ${from} was cut short, or an earlier version wrote it: run sluice meta export --to=${from} again from the former store, which continues it`;
  const known = new Set<string>(exportedTables.map(({ name }) => name));
  const unknown = Object.keys(found).find((name) => !known.has(name));
  return (
    unknown &&
    `the export in ${from} has the table ${unknown}, which this version does not have: import it with the version that wrote it`
  );
}

/** @throws ExportDamaged, because the message of the parser does not name the place */
function parse(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ExportDamaged(place, cause);
  }
}

const writeExported = (directory: string, exported: Exported): Promise<void> =>
  writeWhole(join(directory, exportFile), `${JSON.stringify(exported, undefined, 2)}\n`);

/** A reader sees the former file or all of the new one. */
async function writeWhole(path: string, text: string): Promise<void> {
  await makePrivateDirectory(join(path, '..'));
  await writeFile(`${path}.part`, text, { mode: 0o600 });
  await flush(`${path}.part`);
  await rename(`${path}.part`, path);
}

// Rows as lines of text, the same for each metadata backend, and a checksum of many that does not depend on their order.

type Columns = Readonly<Record<string, unknown>>;

/** Columns in the order of the table. Absent ones are left out, and so are those of a counter that are 0. */
function writeLine(table: AnyTable, { row, expiresAt }: CopiedRow): string {
  const columns: Record<string, unknown> = {};
  for (const [name, { type }] of Object.entries(table.columns)) {
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

/** @throws ExportDamaged */
function readLine(table: AnyTable, line: string, place: string): CopiedRow {
  const parsed = parse(line, place);
  if (!Array.isArray(parsed) || typeof parsed[0] !== 'object') throw new ExportDamaged(place);
  const [columns, expiresAt] = parsed as unknown as readonly [Columns, number?];
  const row: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(columns))
    row[name] =
      table.columns[name]?.type === 'blob' ? new Uint8Array(Buffer.from(value as string, 'base64')) : value;
  return expiresAt === undefined ? { row } : { row, expiresAt };
}

const modulus = 2n ** 64n;

/** The number of lines and the sum of their hashes. */
class Checksum {
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

// Writes all rows of the metadata to a directory, a part after another; an interrupted export continues behind its last part.

/** Rows of a part: some 10 MiB. */
const rowsPerPart = 20_000;

interface ExportOptions {
  readonly to: string;
  readonly signal: AbortSignal;
  readonly watch?: CommandWatch | undefined;
}

/**
 * The generations of the leases. Each gateway with workers takes leases soon after its start, so an equal text shows that none has
 * run in between.
 */
async function readGenerations({ everyRow }: Pick<MetadataStore, 'everyRow'>): Promise<string> {
  const found: LeaseRow[] = [];
  // The cast: rows of this table.
  for await (const { rows } of everyRow?.(leases) ?? [])
    for (const { row } of rows as { readonly row: LeaseRow }[]) found.push(row);
  return formatLeases(found);
}

/** @throws ImportConflict where the directory has an export of another installation or of an earlier state; the signal's reason */
export async function exportMetadata(
  metadata: Pick<MetadataStore, 'everyRow' | 'get'>,
  { to, signal, watch }: ExportOptions,
): Promise<Exported> {
  const installation = (await findInstallation(metadata))?.state.id ?? '';
  const generations = await readGenerations(metadata);
  const none: Exported = { format: 1, installation, leases: generations, tables: {} };
  let exported = (await readExported(to)) ?? none;
  if (exported.installation !== installation)
    throw new ImportConflict(`${to} has an export of another installation: ${exported.installation}`);
  if (exported.leases !== generations)
    throw new ImportConflict(
      `a gateway has run since the export in ${to} began, so its rows are of an earlier state: export to another directory`,
    );
  let done = Object.values(exported.tables).reduce((sum, { rows }) => sum + rows, 0);
  watch?.begin({ kind: 'meta export', of: 'rows', paced: 'count' }, { done: { count: done } });
  const count = (rows: number): void => {
    done += rows;
    if (watch?.isDue === true) watch.show({ done: { count: done } });
  };
  for (const table of exportedTables) {
    if (exported.tables[table.name]?.isComplete === true) continue;
    const save = async (state: ExportedTable): Promise<void> => {
      exported = { ...exported, isComplete: false, tables: { ...exported.tables, [table.name]: state } };
      await writeExported(to, exported);
    };
    const from = exported.tables[table.name];
    await exportTable(metadata, table, {
      to,
      signal,
      from: from?.position === undefined ? undefined : from,
      save,
      count,
    });
  }
  watch?.end({ count: done });
  if ((await readGenerations(metadata)) !== generations)
    throw new ImportConflict(
      `a gateway has run during the export: stop all gateways, and export to another directory`,
    );
  exported = { ...exported, isComplete: true };
  await writeExported(to, exported);
  return exported;
}

async function exportTable(
  { everyRow }: Pick<MetadataStore, 'everyRow'>,
  table: AnyTable,
  {
    to,
    signal,
    from,
    save,
    count,
  }: Pick<ExportOptions, 'to' | 'signal'> & {
    readonly from: ExportedTable | undefined;
    readonly save: (state: ExportedTable) => Promise<void>;
    /** Gets the number of rows of each page. */
    readonly count: (rows: number) => void;
  },
): Promise<void> {
  if (everyRow === undefined) throw new Error('this metadata backend has no copies of its rows');
  const checksum = new Checksum(from);
  let parts = from?.parts ?? 0;
  let lines: string[] = [];
  const cut = async (page?: RowPage): Promise<void> => {
    if (lines.length > 0) {
      await writeWhole(partPath(to, table.name, parts), `${lines.join('\n')}\n`);
      parts += 1;
    }
    lines = [];
    const { rows, sum } = checksum;
    const position = page?.position;
    await save({
      parts,
      rows,
      sum,
      isComplete: page === undefined,
      ...(position === undefined ? {} : { position }),
    });
  };
  for await (const page of everyRow(table, from?.position)) {
    signal.throwIfAborted();
    for (const row of page.rows) {
      const line = writeLine(table, row);
      // A row that expires may be gone when the import is verified.
      if (row.expiresAt === undefined) checksum.add(line);
      lines.push(line);
    }
    if (lines.length >= rowsPerPart) await cut(page);
    count(page.rows.length);
  }
  await cut();
}

// Puts the rows of an export into a metadata store that has no buckets yet, and then compares all of them. Each put expects that the row is
// absent and accepts an equal one, so an import that was cut short is begun again and continues.

/** Commits at a time: they share flushes, and the rounds of an engine. */
const commitsAtOnce = 64;
const sideChangesPerWrite = 64;

interface TableDifference {
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
      const path = partPath(from, table.name, part);
      const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '');
      const rows = lines.map((line, index) => readLine(table, line, `${path}: line ${index + 1}`));
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

function partitionPlace({ shards }: Import, table: AnyTable, row: Columns): At<AnyTable> {
  const place = Object.fromEntries((table.partition as readonly string[]).map((name) => [name, row[name]]));
  if (table.spreadBy === undefined) return { table, in: place };
  return { table, in: place, ways: shards.get(String(row['bucketId']))?.shards ?? 1 };
}

const sortColumns = (table: AnyTable, row: Columns): Columns =>
  Object.fromEntries(
    (table.sort as readonly string[]).map((name) => name.replace(/^-/, '')).map((name) => [name, row[name]]),
  );

type Put = (run: Import, table: AnyTable, rows: readonly CopiedRow[]) => Promise<void>;

const putters = {
  async conditional(run, table, rows) {
    await inParallel(commitsAtOnce, rows, async (copied) => {
      run.signal.throwIfAborted();
      const at = partitionPlace(run, table, copied.row as Columns);
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
        return { at: partitionPlace(run, table, row as Columns), put: row, ...expiry };
      });
      await run.metadata.apply(changes);
      run.count(batch.length);
    });
  },
  async counter(run, table, rows) {
    for (const { row } of rows) {
      const at = partitionPlace(run, table, row as Columns);
      const key = sortColumns(table, row as Columns);
      // A line leaves out columns that are 0. Adding 0 creates a row that is absent.
      const there = (await run.metadata.get(at, key))?.row as Columns | undefined;
      const amounts = Object.entries(table.columns).filter(
        ([name, { type }]) => type === 'int' && !(name in key) && !(name in at.in),
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
  const key = sortColumns(at.table, row as Columns);
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

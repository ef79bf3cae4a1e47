/** Writes all rows of the metadata to a directory, a part after another; an interrupted export continues behind its last part. */
import { findInstallation } from '../../metadata/installation.ts';
import { type LeaseRow, leases } from '../../metadata/records/processes.ts';
import type { AnyTable, MetadataStore, RowPage } from '../../ports/metadata-store.ts';
import type { CommandWatch } from '../cli/command-watch.ts';
import {
  Checksum,
  type Exported,
  type ExportedTable,
  exportedTables,
  formatLeases,
  ImportConflict,
  partPath,
  readExported,
  writeExported,
  writeLine,
  writeWhole,
} from './exported.ts';

/** Rows of a part: some 10 MiB. */
const rowsPerPart = 20_000;

export interface ExportOptions {
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
      exported = { ...exported, tables: { ...exported.tables, [table.name]: state } };
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

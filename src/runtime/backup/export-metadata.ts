/** Writes all rows of the metadata to a directory, a part after another; an interrupted export continues behind its last part. */
import { findInstallation } from '../../metadata/installation.ts';
import type { AnyTable, MetadataStore, RowPage } from '../../ports/metadata-store.ts';
import {
  type Exported,
  type ExportedTable,
  exportedTables,
  ImportConflict,
  partPath,
  readExported,
  writeExported,
  writeWhole,
} from './exported.ts';
import { Checksum, writeLine } from './row-lines.ts';

/** Rows of a part: some 10 MiB. */
const rowsPerPart = 20_000;

export interface ExportOptions {
  readonly to: string;
  readonly signal: AbortSignal;
}

/** @throws ImportConflict where the directory has an export of another installation; the signal's reason */
export async function exportMetadata(
  metadata: Pick<MetadataStore, 'everyRow' | 'get'>,
  { to, signal }: ExportOptions,
): Promise<Exported> {
  const installation = (await findInstallation(metadata))?.state.id ?? '';
  let exported: Exported = (await readExported(to)) ?? { format: 1, installation, tables: {} };
  if (exported.installation !== installation)
    throw new ImportConflict(`${to} has an export of another installation: ${exported.installation}`);
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
    });
  }
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
  }: ExportOptions & {
    readonly from: ExportedTable | undefined;
    readonly save: (state: ExportedTable) => Promise<void>;
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
  }
  await cut();
}

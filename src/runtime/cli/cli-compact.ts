/** `sluice compact`: returns the free pages of the embedded metadata file to the file system. */

import { existsSync } from 'node:fs';
import { compactFile } from '../../backends/metadata/embedded/compact.ts';
import { printable } from '../../base/text/printable.ts';
import { tables } from '../../metadata/tables.ts';
import { type MetadataFault, StoreRefused } from '../../ports/metadata-store.ts';
import { inDataDir } from '../compose/compose-bytes.ts';
import type { Configuration } from '../compose/configuration.ts';

/** The exit code for a refusal, which has changed nothing; 2 is an invalid command line. */
const refusedCode = 1;

export function compactFaults({ config }: Configuration): readonly string[] {
  const { SVC_DATA_DIR: directory, SVC_META_BACKEND: backend } = config;
  if (backend !== 'embedded') return [`compact is for SVC_META_BACKEND=embedded, not ${backend}`];
  return directory === undefined || existsSync(directory) ? [] : [`there is no directory ${directory}`];
}

const print = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

/** Resolves with the exit code. */
export async function compact({ config }: Configuration, own: readonly string[]): Promise<number> {
  const asJson = own.includes('--json');
  const report = (fault: MetadataFault): void =>
    print(asJson ? JSON.stringify({ kind: 'metadata', ...fault }) : formatFault(fault));
  try {
    const compacted = await compactFile({
      directory: inDataDir(config, 'metadata'),
      tables: Object.values(tables),
      dropsDamaged: own.includes('--drop-damaged'),
      discardsFormer: own.includes('--discard-old'),
      report,
    });
    const { rows, bytesBefore, bytesAfter, dropped } = compacted;
    print(
      asJson
        ? JSON.stringify({ summary: compacted })
        : `${rows} rows, ${bytesBefore} bytes before, ${bytesAfter} bytes after, ${dropped} damaged dropped`,
    );
    return 0;
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    process.stderr.write(`sluice: ${error.message}\n`);
    return refusedCode;
  }
}

function formatFault({ detail, table, row, columns }: MetadataFault): string {
  const where = [
    table === undefined ? [] : [`table=${table}`],
    row === undefined ? [] : [`row=${row}`],
    columns === undefined ? [] : [`columns=${JSON.stringify(columns)}`],
  ];
  return printable(['metadata', ...where.flat(), detail].join('  '));
}

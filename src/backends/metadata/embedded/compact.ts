/**
 * Writes the rows of the metadata file into a new one and replaces the old file, because lmdb reuses free pages but never returns them
 * to the file system. Rows are read without lmdb and verified, so that damaged ones can be left out. At each moment `data.mdb` is the
 * old file or the new one, and both are complete and flushed.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { open } from 'lmdb';
import { type AnyTable, type MetadataFault, StoreRefused } from '../../../ports/metadata-store.ts';
import { space } from '../records/codec.ts';
import { checkPages, type PageFault } from './check-pages.ts';
import type { RawDatabase } from './checked-database.ts';
import { damagedPagesFile } from './damaged-pages.ts';
import { nameFault } from './damaged-reads.ts';
import { assertFormat, explainFailure } from './environment.ts';
import { assertUnused, draftDirectory, formerFile, underWriteLock } from './exclusive-use.ts';
import { dataFile, LatestCommit, lockFile, Openings } from './meta-page.ts';

export interface CompactOptions {
  readonly directory: string;
  readonly tables: readonly AnyTable[];
  /** Leaves rows out that do not verify. Else a damaged row refuses the compaction. */
  readonly dropsDamaged: boolean;
  /** Removes the former file immediately; otherwise the next start does. */
  readonly discardsFormer: boolean;
  readonly report: (fault: MetadataFault) => void;
}

export interface Compacted {
  readonly rows: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** Damaged rows and pages that were left out. */
  readonly dropped: number;
}

const rowsPerTransaction = 10_000;

const keyEncoder = {
  writeKey(key: Uint8Array, target: Buffer, start: number): number {
    target.set(key, start);
    return start + key.length;
  },
  readKey: (source: Buffer, start: number, end: number): Uint8Array =>
    new Uint8Array(source.subarray(start, end)),
};

/** Values are copied unchanged, checksum included. */
function openRaw(path: string): RawDatabase {
  try {
    return open<unknown, Uint8Array>({
      path,
      noSubdir: false,
      keyEncoder,
      encoding: 'binary',
      ...({ permissionsMode: 0o600 } as object),
      overlappingSync: false,
      eventTurnBatching: false,
    });
  } catch (cause) {
    throw explainFailure(cause, path);
  }
}

/** @throws StoreRefused where another process uses the file, or rows are damaged that must not be left out */
export async function compactFile(options: CompactOptions): Promise<Compacted> {
  const { directory } = options;
  if (!existsSync(dataFile(directory))) throw new StoreRefused(`there is no ${dataFile(directory)}`);
  const openings = new Openings(directory);
  const endOpening = openings.begin();
  const former = openRaw(directory);
  const latest = new LatestCommit(directory);
  latest.correctAfterOpening();
  endOpening();
  try {
    // The write lock is held to the end, also against gateways that start meanwhile.
    return underWriteLock(former, () => {
      // For a gateway beside which the compaction is refused.
      latest.correct(former.getWriteTxnId());
      assertUnused(directory, former as unknown as Parameters<typeof assertUnused>[1]);
      const draft = draftDirectory(directory);
      rmSync(draft, { recursive: true, force: true });
      try {
        const copied = copyRows(options, draft);
        const bytesBefore = statSync(dataFile(directory)).size;
        const bytesAfter = statSync(dataFile(draft)).size;
        replace(options, draft);
        return { ...copied, bytesBefore, bytesAfter };
      } finally {
        rmSync(draft, { recursive: true, force: true });
      }
    });
  } finally {
    await former.close();
    latest.close();
    openings.close();
  }
}

function copyRows(
  options: CompactOptions,
  draft: string,
): { readonly rows: number; readonly dropped: number } {
  mkdirSync(draft, { mode: 0o700 });
  const target = openRaw(draft);
  let batch: (readonly [key: Uint8Array, value: Uint8Array])[] = [];
  let rows = 0;
  const flush = (): void => {
    underWriteLock(target, () => {
      for (const [key, value] of batch) target.putSync(key, value, { append: true });
    });
    rows += batch.length;
    batch = [];
  };
  const faults: PageFault[] = [];
  try {
    const visit = (key: Uint8Array, value: Uint8Array): void => {
      batch.push([key, new Uint8Array(value)]);
    };
    readPages(dataFile(options.directory), visit, (found) => {
      for (const fault of found) options.report(nameFault(fault, options.tables));
      faults.push(...found);
      if (batch.length >= rowsPerTransaction) flush();
    });
    flush();
  } finally {
    void target.close();
  }
  assertDroppable(faults, options.dropsDamaged);
  assertCopied(draft, rows);
  // A new file has a free list of its own, so a damaged one costs no rows.
  return { rows, dropped: faults.filter(({ isFreeList }) => isFreeList !== true).length };
}

function readPages(
  path: string,
  visit: (key: Uint8Array, value: Uint8Array) => void,
  step: (faults: readonly PageFault[]) => void,
): void {
  const descriptor = openSync(path, 'r');
  try {
    for (const { faults } of checkPages(descriptor, visit)) step(faults);
  } finally {
    closeSync(descriptor);
  }
}

/** Rows of the catalog and fences determine how other rows are read and who may write them: nothing works without them. */
function assertDroppable(faults: readonly PageFault[], dropsDamaged: boolean): void {
  if (faults.length === 0) return;
  if (!dropsDamaged)
    throw new StoreRefused(
      `${faults.length} damaged, nothing was changed: --drop-damaged leaves out what is damaged; docs/recovery.md says what else to do`,
    );
  const isNeeded = ({ key, low, isFreeList }: PageFault): boolean =>
    isFreeList !== true && ((key ?? low)?.[0] ?? 0) <= space.fence;
  if (faults.some(isNeeded))
    throw new StoreRefused(
      'what is damaged may be a row of the catalog or a fence, without which no row can be used: nothing was changed; docs/recovery.md says what to do',
    );
}

/** Reads the new file once more before it takes the place of the old one. */
function assertCopied(draft: string, rows: number): void {
  let found = 0;
  let format: Uint8Array | undefined;
  const visit = (_: Uint8Array, value: Uint8Array): void => {
    // The note of the format is the first row.
    format ??= value;
    found += 1;
  };
  readPages(dataFile(draft), visit, ([fault]) => {
    if (fault !== undefined) throw new Error(`the new file is damaged: ${fault.detail}`);
  });
  if (found !== rows) throw new Error(`the new file has ${found} rows of ${rows}`);
  assertFormat(format);
}

/** Also removes the former lock file, which has the number of the latest commit of the former file. */
function replace({ directory, discardsFormer }: CompactOptions, draft: string): void {
  const former = formerFile(directory);
  rmSync(former, { force: true });
  linkSync(dataFile(directory), former);
  flushPath(dataFile(draft));
  renameSync(dataFile(draft), dataFile(directory));
  rmSync(lockFile(directory), { force: true });
  rmSync(damagedPagesFile(directory), { force: true });
  flushPath(directory);
  if (discardsFormer) rmSync(former, { force: true });
}

function flushPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Processes that ended by a memory fault. lmdb maps its file, and the kernel kills the process by such a signal where a page header is
 * damaged or the file is too short. So the log names the file to check, and the node ends after several of them.
 */
import { dirname, join } from 'node:path';
import type { Config } from '../../config.ts';
import type { Log } from '../../telemetry/log.ts';

const signals: ReadonlySet<string | null> = new Set(['SIGSEGV', 'SIGBUS', 'SIGABRT']);
/** The node ends at so many faults within the time: a damaged file does not get better. */
const faultsMax = 5;
const withinMs = 600_000;

export interface Death {
  readonly pid: number | undefined;
  readonly signal: string | null;
}

/** The file that such a signal makes suspect; undefined where metadata is no mapped file. */
export const mappedFile = ({
  SVC_META_BACKEND,
  SVC_DATA_DIR,
}: Pick<Config, 'SVC_META_BACKEND' | 'SVC_DATA_DIR'>): string | undefined =>
  SVC_META_BACKEND === 'embedded' && SVC_DATA_DIR !== undefined
    ? join(SVC_DATA_DIR, 'metadata', 'data.mdb')
    : undefined;

/** Names the pages of the metadata file that lmdb must not read again. @returns how many are known */
async function findDamage(file: string): Promise<number> {
  const { findDamagedPages } = await import('../../backends/metadata/embedded/file/damaged-pages.ts');
  return findDamagedPages(dirname(file));
}

export class MemoryFaults {
  readonly #log: Log;
  readonly #file: string | undefined;
  #search: Promise<void> | undefined;
  readonly #times: number[] = [];
  #hasGivenUp = false;

  constructor(log: Log, file: string | undefined) {
    this.#log = log;
    this.#file = file;
  }

  /**
   * Logs the fault, if the death was one, and has the damaged page found, so that no other process ends there.
   * @returns whether the node should end
   */
  note({ pid, signal }: Death, now = performance.now()): boolean {
    if (!signals.has(signal)) return false;
    const file = this.#file;
    const advice =
      file === undefined
        ? 'a fault of memory ended a process'
        : 'a fault of memory ended a process: a page of the metadata file may be damaged; run `sluice fsck` and see docs/recovery.md';
    this.#log('ERROR', advice, { pid, signal, ...(file === undefined ? {} : { file }) });
    if (file !== undefined) this.#search ??= this.#findIn(file).finally(() => (this.#search = undefined));
    this.#times.push(now);
    if (this.#times.length < faultsMax) return false;
    const isTooMany = now - (this.#times.shift() as number) < withinMs;
    // Several processes may end at the same moment.
    if (isTooMany && !this.#hasGivenUp)
      this.#log('ERROR', 'faults of memory ended too many processes: the node ends', { faults: faultsMax });
    this.#hasGivenUp ||= isTooMany;
    return isTooMany;
  }

  async #findIn(file: string): Promise<void> {
    try {
      const pages = await findDamage(file);
      const meaning =
        'pages of the metadata file are damaged: what needs them is refused; see docs/recovery.md';
      if (pages > 0) this.#log('ERROR', meaning, { pages, file });
    } catch (cause) {
      this.#log('ERROR', 'the search for damaged pages of the metadata file failed', { cause, file });
    }
  }
}

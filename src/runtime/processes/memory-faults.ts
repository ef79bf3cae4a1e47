/**
 * Processes that ended by a memory fault. lmdb maps its file, and the kernel kills the process by such a signal where a page header is
 * damaged or the file is too short. The primary process names the page for the others, and the node ends after several
 * faults that it cannot explain (docs/adr/0036-first-contact-with-a-damaged-page.md).
 */

import fs from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../../config.ts';
import type { Log } from '../../telemetry/log.ts';

const signals: ReadonlySet<string | null> = new Set(['SIGSEGV', 'SIGBUS', 'SIGABRT']);
/** The node ends at so many faults within the time of which no page is the cause: a file that is damaged elsewhere does not get better. */
const faultsMax = 5;
const withinMs = 600_000;
/** Processes that met the same page end within this time of each other. */
const togetherMs = 10_000;

interface Death {
  readonly pid: number | undefined;
  readonly signal: string | null;
}

/** What the primary process does about a death. */
interface FaultVerdict {
  /** A page is named that explains the fault: no process reads it again, so the next process need not wait. */
  readonly isExplained: boolean;
  /** The node should end. */
  readonly isHopeless: boolean;
}

/** The file that such a signal makes suspect; undefined where metadata is no mapped file. */
export const mappedFile = ({
  SVC_META_BACKEND,
  SVC_DATA_DIR,
}: Pick<Config, 'SVC_META_BACKEND' | 'SVC_DATA_DIR'>): string | undefined =>
  SVC_META_BACKEND === 'embedded' && SVC_DATA_DIR !== undefined
    ? join(SVC_DATA_DIR, 'metadata', 'data.mdb')
    : undefined;

/** Loaded at the first fault, because the primary process needs nothing else of the backend. */
const damagedPages = () => import('../../backends/metadata/embedded/damaged-pages.ts');

const meaning = 'pages of the metadata file are damaged: what needs them is refused; see docs/recovery.md';

export class MemoryFaults {
  readonly #log: Log;
  readonly #file: string | undefined;
  #search: Promise<void> | undefined;
  readonly #times: number[] = [];
  #hasStopped = false;
  /** When a page was named that was not known before. */
  #namedAt = Number.NEGATIVE_INFINITY;

  constructor(log: Log, file: string | undefined) {
    this.#log = log;
    this.#file = file;
  }

  /**
   * Logs the fault, if the death was one, and names the damaged pages where the process read last. The search of the whole file goes on
   * after the return.
   */
  async note({ pid, signal }: Death, now = performance.now()): Promise<FaultVerdict> {
    if (!signals.has(signal)) return { isExplained: false, isHopeless: false };
    const file = this.#file;
    const advice =
      file === undefined
        ? 'a fault of memory ended a process'
        : 'a fault of memory ended a process: a page of the metadata file may be damaged; run `sluice fsck` and see docs/recovery.md';
    this.#log('ERROR', advice, { pid, signal, ...(file === undefined ? {} : { file }) });
    if (file !== undefined && (await this.#nameNoted(file))) this.#namedAt = now;
    const isExplained = now - this.#namedAt < togetherMs;
    if (file !== undefined) this.#search ??= this.#findIn(file).finally(() => (this.#search = undefined));
    return { isExplained, isHopeless: !isExplained && this.#isHopeless(now) };
  }

  #isHopeless(now: number): boolean {
    this.#times.push(now);
    if (this.#times.length < faultsMax) return false;
    const isTooMany = now - (this.#times.shift() as number) < withinMs;
    // Several processes may end at the same moment.
    if (isTooMany && !this.#hasStopped)
      this.#log('ERROR', 'faults of memory ended too many processes: the node ends', { faults: faultsMax });
    this.#hasStopped ||= isTooMany;
    return isTooMany;
  }

  /** The notes stay, because the process that starts next reads them as well. */
  async #nameNoted(file: string): Promise<boolean> {
    try {
      const { nameNotedPages } = await damagedPages();
      const pages = nameNotedPages(dirname(file), { forgets: false });
      if (pages > 0) this.#log('ERROR', meaning, { pages, file });
      return pages > 0;
    } catch (cause) {
      this.#log('ERROR', 'the notes of a dead process could not be read', { cause, file });
      return false;
    }
  }

  async #findIn(file: string): Promise<void> {
    try {
      const { findDamagedPages } = await damagedPages();
      const pages = await findDamagedPages(dirname(file));
      if (pages > 0) this.#log('ERROR', meaning, { pages, file });
    } catch (cause) {
      this.#log('ERROR', 'the search for damaged pages of the metadata file failed', { cause, file });
    }
  }
}

// The resident memory of this process by kind. RSS alone misleads: it includes pages of lmdb's map, which the kernel reclaims whenever it
// needs memory.

/** Lines of `/proc/self/status`, in KiB. */
const kinds = [
  ['anonymous', 'RssAnon'],
  ['mapped_files', 'RssFile'],
  ['shared', 'RssShmem'],
] as const;

/** The last three kinds exist on Linux only. They add up to the resident memory. */
export function processMemory(): readonly (readonly [kind: string, bytes: number])[] {
  const { heapTotal, external } = process.memoryUsage();
  return [['heap', heapTotal], ['external', external], ...residentMemory()];
}

function residentMemory(): [string, number][] {
  let status: string;
  try {
    status = fs.readFileSync('/proc/self/status', 'latin1');
  } catch {
    // Not Linux, or no permission (Deno).
    return [];
  }
  const found: [string, number][] = [];
  for (const line of status.split('\n')) {
    const kind = kinds.find(([, name]) => line.startsWith(`${name}:`))?.[0];
    if (kind !== undefined) found.push([kind, Number.parseInt(line.slice(line.indexOf(':') + 1), 10) * 1024]);
  }
  return found;
}

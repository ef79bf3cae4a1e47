/** Gathers rows and writes them together: after a second, when many wait, or when a caller flushes them. */
import type { Clock } from '../../ports/clock.ts';
import type { LateWrites, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

const restMs = 1_000;
/** With this many bytes the write does not wait for the next second. */
const manyBytes = 256 * 1024;
/** Above this, callers wait, so that a slow store does not take unbounded memory. */
const fullBytes = 4 * 1024 * 1024;
const rowsPerWrite = 256;

export interface LateWritesPorts {
  readonly metadata: Pick<MetadataStore, 'apply'>;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly telemetry: Pick<Telemetry, 'log'>;
}

class Gathered implements LateWrites {
  readonly #ports: LateWritesPorts;
  #rows: SideChange[] = [];
  #bytes = 0;
  #running: Promise<void> | undefined;
  #rest = new AbortController();
  /** Callers that wait for room. */
  #stalled: (() => void)[] = [];

  constructor(ports: LateWritesPorts) {
    this.#ports = ports;
  }

  async add(change: SideChange, bytes: number): Promise<void> {
    this.#rows.push(change);
    this.#bytes += bytes;
    this.#running ??= this.#run();
    if (this.#bytes >= manyBytes) this.#rest.abort();
    if (this.#bytes >= fullBytes) await new Promise<void>((resolve) => void this.#stalled.push(resolve));
  }

  async flush(): Promise<void> {
    while (this.#running !== undefined) {
      this.#rest.abort();
      await this.#running;
    }
  }

  async #run(): Promise<void> {
    await this.#ports.clock.sleep(restMs, this.#rest.signal);
    while (this.#rows.length > 0) await this.#write();
    this.#rest = new AbortController();
    this.#running = undefined;
  }

  async #write(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    const stalled = this.#stalled;
    this.#stalled = [];
    const { metadata, telemetry } = this.#ports;
    for (let first = 0; first < rows.length; first += rowsPerWrite) {
      try {
        await metadata.apply(rows.slice(first, first + rowsPerWrite));
      } catch (cause) {
        // These rows are kept on a best effort: a store that fails must not fill the memory as well.
        telemetry.log('WARN', 'rows of the write-behind buffer were lost', {
          rows: rows.length - first,
          cause,
        });
        break;
      }
    }
    for (const resume of stalled) resume();
  }
}

export const lateWrites = (ports: LateWritesPorts): LateWrites => new Gathered(ports);

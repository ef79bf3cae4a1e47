/** Rows that may be written after the request is answered, as a port: collected in the process and written in batches. */
import type { SideChange } from './metadata-store.ts';

export interface LateWrites {
  /**
   * Takes a row, which is written within about a second. Rows that still wait are lost when the process dies.
   * @param bytes the approximate memory of the row
   * @returns resolves when the buffer has room for the next row
   */
  add(change: SideChange, bytes: number): Promise<void>;
  /** Resolves once everything that was taken is written. */
  flush(): Promise<void>;
}

/** Rows that need not be there when a request is answered, as a port: gathered in the process and written together. */
import type { SideChange } from './metadata-store.ts';

export interface LateWrites {
  /**
   * Takes a row, which is written within about a second. What waits is lost when the process dies.
   * @param bytes about what it takes in memory
   * @returns undefined as long as there is room; else a promise of some
   */
  add(change: SideChange, bytes: number): Promise<void> | undefined;
  /** Resolves once everything that was taken is written. */
  flush(): Promise<void>;
}

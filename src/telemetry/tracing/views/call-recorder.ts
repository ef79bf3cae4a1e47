/** What the views of the ports need of a trace. */
import type { Cause } from '../../../ports/trace.ts';

export interface CallRecorder {
  /**
   * Records a call until its promise settles, whichever way.
   * @param about the table, cluster or server; not empty
   */
  call<T>(name: string, about: string, run: (span: Cause | undefined) => Promise<T>): Promise<T>;
  /** The same for a backend that is usually measured: the clock is then read once for both. */
  measuredCall<T>(name: string, about: string, run: (span: Cause | undefined) => Promise<T>): Promise<T>;
}

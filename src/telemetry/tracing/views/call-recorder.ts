/** What the views of the ports need of a trace. */
import type { Cause } from '../../../ports/trace.ts';

export interface CallRecorder {
  /**
   * Records a call until its promise settles, whichever way.
   * @param about the table, cluster or server; not empty
   */
  call<T>(name: string, about: string, run: (span: Cause | undefined) => Promise<T>): Promise<T>;
}

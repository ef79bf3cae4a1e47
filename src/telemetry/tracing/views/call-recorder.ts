/** What the views of the ports need of a trace. */
import type { Cause } from '../../../ports/trace.ts';

export interface CallRecorder {
  /**
   * Records a call until its promise settles, whichever way.
   * @param about the table, cluster or server; not empty
   */
  call<T>(name: string, about: string, run: (span: Cause | undefined) => Promise<T>): Promise<T>;
  /**
   * The same for a backend that is usually measured, with one reading of the clock for both, and without a closure: `follow(begin(name, about), call)`,
   * where the call is made after `begin` and before anything else is called.
   */
  begin(name: string, about: string): Cause | undefined;
  follow<T>(span: Cause | undefined, running: Promise<T>): Promise<T>;
}

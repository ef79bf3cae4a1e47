/** Whether a promise waits for something. */
import { setImmediate as turn } from 'node:timers/promises';

/** True where the promise is still pending after everything that could settle it at once has run. */
export async function isWaiting(promise: Promise<unknown>): Promise<boolean> {
  let isPending = true;
  const settled = () => {
    isPending = false;
  };
  promise.then(settled, settled);
  await turn();
  return isPending;
}

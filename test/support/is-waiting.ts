/** Whether a promise is still pending. */
import { setImmediate as turn } from 'node:timers/promises';

/** True if the promise is still pending after all ready callbacks have run. */
export async function isWaiting(promise: Promise<unknown>): Promise<boolean> {
  let isPending = true;
  const settled = () => {
    isPending = false;
  };
  promise.then(settled, settled);
  await turn();
  return isPending;
}

/** Waiting for a simulated process that may have been killed: one that was hangs forever, and is left there. */
import type { DomainWorld } from '../support/domain-world.ts';

type Mortal = Pick<ReturnType<DomainWorld['process']>, 'hasDied'>;

/** Runs as far as the process lives. */
export async function untilDeath(process: Mortal, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  const settled = work.then(over, over);
  for (let turn = 0; turn < 10_000 && !isOver && !process.hasDied(); turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (isOver) await settled;
  // A killed call that takes effect does so now.
  else await new Promise((resolve) => setTimeout(resolve, 1));
}

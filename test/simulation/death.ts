/** Waits for a simulated process that may be killed. A killed process hangs forever, so its promise is not awaited further. */
import { setImmediate as turn } from 'node:timers/promises';
import type { DomainWorld } from '../support/domain-world.ts';

type Mortal = Pick<ReturnType<DomainWorld['process']>, 'hasDied'>;

/** More turns of the event loop than the longest write of these tests takes. */
const effectTurns = 60;

/** Resolves when the work is done or its process has been killed. */
export async function untilDeath(process: Mortal, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  const settled = work.then(over, over);
  for (let turns = 0; turns < 10_000 && !isOver && !process.hasDied(); turns += 1) {
    await turn();
  }
  if (isOver) await settled;
  // A killed call that takes effect does so now, however busy the machine is: turns are counted, not time.
  else for (let each = 0; each < effectTurns; each += 1) await turn();
}

/** Ports that answer after a random, seeded number of turns of the event loop, so that requests interleave. */
import { setImmediate } from 'node:timers';
import type { Context } from '../../src/context.ts';

const turnsMax = 6;

interface Delaying {
  (context: Context): Context;
  /** The ports answer as before, so a gateway in another process, whose calls interleave anyway, needs none of it. */
  readonly onlyDelays: true;
}

export function jittering(seed: number): Delaying {
  let state = seed >>> 0;
  const wait = async (): Promise<void> => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    for (let turns = (state >>> 16) % turnsMax; turns > 0; turns -= 1)
      await new Promise<void>((resolve) => setImmediate(resolve));
  };
  const slow = (context: Context): Context => ({ ...context, metadata: slowed(context.metadata, wait) });
  return Object.assign(slow, { onlyDelays: true as const });
}

/** Waits before and after every call that returns a promise; cursors wait before each read. */
function slowed<Port extends object>(port: Port, wait: () => Promise<void>): Port {
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name === 'scan') {
        return (...given: unknown[]) => {
          const cursor = value.apply(target, given) as {
            next(count: number): Promise<unknown>;
            seek(...to: unknown[]): void;
          };
          return {
            seek: (...to: unknown[]) => cursor.seek(...to),
            next: async (count: number) => {
              await wait();
              return cursor.next(count);
            },
          };
        };
      }
      return async (...given: unknown[]) => {
        await wait();
        const answer: unknown = await value.apply(target, given);
        await wait();
        return answer;
      };
    },
  });
}

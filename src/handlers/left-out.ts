/** The answer of every operation that is not implemented. */
import { fail } from '../errors/refusal.ts';
import { type LeftOutName, leftOutNames, leftOutOperations } from '../protocol/operations/left-out.ts';
import type { HandlerOf } from './handler.ts';

const refusing =
  (name: LeftOutName): HandlerOf<LeftOutName> =>
  async () => {
    throw fail('NotImplemented', `${name} is not implemented: ${leftOutOperations[name].leftOut}.`);
  };

export const leftOut = Object.fromEntries(
  leftOutNames.map((name) => [name, refusing(name)]),
  // The cast: one entry was made of each name.
) as Readonly<Record<LeftOutName, HandlerOf<LeftOutName>>>;

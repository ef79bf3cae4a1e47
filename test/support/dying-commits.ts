/** Commits to Cassandra by a process that dies after its commit has applied and before its side changes, or instead of its commit. */
import { Commits } from '../../src/backends/metadata/wide-column/commits.ts';
import { Folds } from '../../src/backends/metadata/wide-column/counters.ts';
import type { Intents } from '../../src/backends/metadata/wide-column/intents.ts';
import type { Session } from '../../src/backends/metadata/wide-column/session.ts';
import { Tables } from '../../src/backends/metadata/wide-column/statements.ts';
import type { Random } from '../../src/ports/random.ts';

export class Died extends Error {}
export type DiesAt = 'side changes' | 'commit';

export interface DyingPorts {
  readonly session: Session;
  readonly keyspace: string;
  readonly intents: Intents;
  readonly random: Random;
  readonly now: () => Promise<number>;
}

export function dyingCommits({ session, keyspace, intents, random, now }: DyingPorts, at: DiesAt): Commits {
  const tables = new Tables(keyspace);
  const die = async (): Promise<never> => {
    throw new Died();
  };
  const mortal = new Proxy(session, {
    get: (target, name) => {
      if (name === (at === 'commit' ? 'decide' : 'write')) return die;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const folds = new Folds({ session, tables, intents });
  const placed = async (): Promise<never> => {
    throw new Error('nothing is split');
  };
  return new Commits({ session: mortal, tables, intents, folds, random, now, placed });
}

/** Runs a given action just before a chosen call of a store. */
import type { Context } from '../../src/context.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { faulty } from './faulty.ts';

/** Runs an action right before the next commit to a table. */
export function ambush() {
  let table = '';
  let strike: () => Promise<unknown> = async () => {};
  return {
    rightBefore(name: string, action: () => Promise<unknown>) {
      table = name;
      strike = action;
    },
    wrap: (context: Context): Context => {
      const { metadata } = context;
      const commit: MetadataStore['commit'] = async (at, changes, options) => {
        if ((at.table as { name: string }).name === table) {
          table = '';
          await strike();
        }
        return metadata.commit(at, changes, options);
      };
      return { ...context, metadata: faulty(metadata, { commit }) };
    },
  };
}

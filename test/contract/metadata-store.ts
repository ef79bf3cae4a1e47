/**
 * The contract of the metadata port: one law for each promise in `src/ports/metadata-store.ts`. A backend must pass all of them. A law
 * gets a fresh store and uses it only through the port.
 */
import { describe, it } from 'vitest';
import type { Clock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { commitLaws } from './metadata-store/commits.ts';
import { fenceLaws } from './metadata-store/fences.ts';
import { intentLaws } from './metadata-store/intents.ts';
import { modelLaws } from './metadata-store/model.ts';
import { orderLaws } from './metadata-store/order.ts';
import { processLaws } from './metadata-store/processes.ts';
import { rowLaws } from './metadata-store/rows.ts';
import { scanLaws } from './metadata-store/scans.ts';
import { shardLaws } from './metadata-store/shards.ts';
import { sideChangeLaws } from './metadata-store/side-changes.ts';
import { cutSplitLaws, splitLaws } from './metadata-store/splits.ts';

/** A store under test, with control over its time and over its process. */
export interface Opened {
  readonly store: MetadataStore;
  /** How long an intent stays valid after its process last renewed it. */
  readonly intentTtlMs: number;
  /** Lets store time pass, by a test clock or by waiting; meanwhile intents are renewed. */
  pass(ms: number): Promise<void>;
  /** Stops the renewal of intents, so that the process looks dead. It can still send commits. */
  pause(): void;
  resume(): void;
  /** The store of another process over the same data, which continues while this one is paused. */
  another(): Promise<MetadataStore>;
  /** Closes the stores and removes what was set up for them. */
  close(): Promise<void>;
}

interface Timed {
  readonly clock: Clock;
  readonly storeClock: () => Promise<number>;
  readonly intentTtlMs: number;
}

interface TimeOptions {
  /** What the clock shows first. */
  readonly start?: number;
  /** Moves the clock of a store that has its own, before the processes maintain their intents. */
  readonly passStore?: (ms: number) => Promise<void>;
}

/** A store with a test clock: its time passes when a law says so, and `maintain` is called meanwhile, as a timer would do. */
export async function timed(
  intentTtlMs: number,
  open: (timed: Timed) => Promise<MetadataStore & { maintain(): Promise<void> }>,
  { start = Date.UTC(2026, 0, 1), passStore }: TimeOptions = {},
): Promise<Opened> {
  let paused = false;
  const clock = frozenClock(start);
  const reopen = () => open({ clock, storeClock: async () => clock.time, intentTtlMs });
  const store = await reopen();
  const others: (typeof store)[] = [];
  return {
    store,
    intentTtlMs,
    async pass(ms) {
      const steps = Math.ceil(ms / (intentTtlMs / 4));
      for (let step = 0; step < steps; step++) {
        clock.time += ms / steps;
        await passStore?.(ms / steps);
        for (const each of paused ? others : [store, ...others]) await each.maintain();
      }
    },
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
    },
    async another() {
      const other = await reopen();
      others.push(other);
      return other;
    },
    async close() {
      for (const each of [store, ...others]) await each.close();
    },
  };
}

export interface Options {
  /** The name of a law that this backend is excused from, and why. */
  readonly skips?: Readonly<Record<string, string>>;
  /** The number of random cases of a property. Default 40. */
  readonly runs?: number;
  /** The factor by which the time limits of laws are longer than for a store in this process. Default 1. */
  readonly patience?: number;
  /** No other process can read its data, so the laws about several processes do not run. */
  readonly alone?: boolean;
  /** The groups of laws that run. Default: all. */
  readonly only?: readonly LawGroup[];
}

export interface Laws {
  law(name: string, body: (opened: Opened) => Promise<void>, timeoutMs?: number): void;
  readonly runs: number;
}

const groups = {
  rows: rowLaws,
  order: orderLaws,
  scans: scanLaws,
  shards: shardLaws,
  commits: commitLaws,
  'side changes': sideChangeLaws,
  fences: fenceLaws,
  splits: splitLaws,
  intents: intentLaws,
  'several processes': processLaws,
  'splits by several processes': cutSplitLaws,
  'any history': modelLaws,
} satisfies Readonly<Record<string, (laws: Laws) => void>>;
export type LawGroup = keyof typeof groups;

export function metadataStoreContract(
  name: string,
  open: () => Promise<Opened>,
  options: Options = {},
): void {
  const { skips = {}, runs = 40, patience = 1, alone = false, only } = options;
  const law: Laws['law'] = (title, body, timeoutMs = 120_000) => {
    const reason = skips[title];
    if (reason !== undefined) {
      it.skip(`${title} (not here: ${reason})`);
      return;
    }
    it(
      title,
      async () => {
        const opened = await open();
        try {
          await body(opened);
        } finally {
          await opened.close();
        }
      },
      timeoutMs * patience,
    );
  };
  describe(`metadata store: ${name}`, () => {
    for (const [group, laws] of Object.entries(groups)) {
      if (only !== undefined && !only.includes(group as LawGroup)) continue;
      if (alone && (laws === processLaws || laws === cutSplitLaws)) continue;
      describe(group, () => laws({ law, runs }));
    }
  });
}

/** A process over shared stores that pauses at its n-th call of the metadata, until the test resumes it. */
import type { Context } from '../../src/context.ts';
import type { AnyTable, At, Cursor, MetadataStore } from '../../src/ports/metadata-store.ts';

export interface PausedProcess {
  readonly context: Context;
  /** Resolves when the process has paused. */
  readonly paused: Promise<void>;
  resume(): void;
}

const calls = new Set(['get', 'commit', 'update']);

export interface PauseOptions {
  /** The number of the call, from 0. A call is a read or a write of rows, or the next page of a scan. */
  readonly at: number;
  /** Before the call takes effect, or after it and before the process has its result. */
  readonly when: 'before' | 'after';
  /** The tables whose calls count. */
  readonly tables: readonly string[];
}

export function pausedAtCall(inner: Context, { at, when, tables }: PauseOptions): PausedProcess {
  const gate = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  let count = 0;
  const call = async <T>({ table }: At<AnyTable>, run: () => Promise<T>): Promise<T> => {
    const pauses = tables.includes(table.name) && count++ === at;
    const pause = async (): Promise<void> => {
      reached.resolve();
      await gate.promise;
    };
    if (pauses && when === 'before') await pause();
    const result = await run();
    if (pauses && when === 'after') await pause();
    return result;
  };
  const metadata: MetadataStore = new Proxy(inner.metadata, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name === 'scan')
        return (place: At<AnyTable>, ...args: unknown[]) => {
          const cursor: Cursor<unknown, unknown> = value.call(target, place, ...args);
          return new Proxy(cursor, {
            get(scanned, method) {
              const own: unknown = Reflect.get(scanned, method, scanned);
              if (typeof own !== 'function') return own;
              if (method !== 'next') return own.bind(scanned);
              return (...given: unknown[]) => call(place, () => own.apply(scanned, given));
            },
          });
        };
      if (!calls.has(String(name))) return value.bind(target);
      return (place: At<AnyTable>, ...args: unknown[]) =>
        call(place, () => value.call(target, place, ...args));
    },
  });
  return { context: { ...inner, metadata }, paused: reached.promise, resume: gate.resolve };
}

/**
 * Runs a worker of the process until it is idle, or pauses.
 * @returns whether it is idle, and what ends it: undefined, or what it throws
 */
export async function runUntilPaused(
  { paused }: PausedProcess,
  unit: (signal: AbortSignal) => Promise<unknown>,
): Promise<{ readonly isOver: boolean; readonly ending: Promise<unknown> }> {
  const run = async (): Promise<void> => {
    while ((await unit(new AbortController().signal)) === 'busy');
  };
  const ending = run().catch((cause: unknown) => cause);
  return { ending, isOver: await Promise.race([paused.then(() => false), ending.then(() => true)]) };
}

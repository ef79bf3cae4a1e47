/** A child process over shared stores that pauses at a chosen metadata call until the test resumes it. */
import type { Context } from '../../src/context.ts';
import type { AnyTable, At, MetadataStore } from '../../src/ports/metadata-store.ts';

type Method = 'get' | 'commit';

export interface PausedProcess {
  readonly context: Context;
  /** Pauses right before the next such call to this table, or before a later one. */
  pauseBefore(method: Method, table: string, skipped?: number): void;
  /** Resolves when the process has paused. */
  readonly stands: Promise<void>;
  goOn(): void;
}

export function pausedProcess(inner: Context): PausedProcess {
  const { promise: stands, resolve: stand } = Promise.withResolvers<void>();
  const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>();
  let wanted: { readonly method: Method; readonly table: string; skipped: number } | undefined;
  let isPaused = false;
  const metadata = new Proxy(inner.metadata, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function' || name === 'scan' || name === 'split') return value;
      return async (...given: unknown[]) => {
        const table = (given[0] as At<AnyTable> | undefined)?.table?.name;
        if (wanted !== undefined && wanted.method === name && wanted.table === table) {
          if (wanted.skipped === 0) {
            wanted = undefined;
            isPaused = true;
            stand();
          } else wanted.skipped -= 1;
        }
        if (isPaused) await resumed;
        return value.apply(target, given) as unknown;
      };
    },
  });
  const clock = {
    ...inner.clock,
    sleep: async (ms: number, signal?: AbortSignal) => {
      await inner.clock.sleep(ms, signal);
      if (isPaused) await resumed;
    },
  };
  return {
    context: { ...inner, metadata: metadata as MetadataStore, clock },
    pauseBefore(method, table, skipped = 0) {
      wanted = { method, table, skipped };
    },
    stands,
    goOn: () => goOn(),
  };
}

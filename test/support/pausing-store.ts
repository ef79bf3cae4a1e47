/** Counts calls of a store and stops before one of them until it is woken; the reads of a scan count as calls. */
import type { MetadataStore } from '../../src/ports/metadata-store.ts';

export function pausing(
  store: MetadataStore,
  {
    isCounted = () => true,
    last,
  }: { isCounted?(name: string, call: readonly unknown[]): boolean; readonly last: number },
) {
  let calls = 0;
  let wake: () => void = () => {};
  const woken = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const over = <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function' || name === 'seek' || name === 'watchCommits') return value;
        if (name === 'scan') return (...call: unknown[]) => over(value.apply(target, call) as object);
        return async (...call: unknown[]) => {
          if (isCounted(String(name), call)) calls += 1;
          if (calls === last) await woken;
          return value.apply(target, call);
        };
      },
    });
  return { metadata: over(store), wake, isAsleep: () => calls >= last };
}

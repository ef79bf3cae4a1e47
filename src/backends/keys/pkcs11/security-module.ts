/**
 * A PKCS#11 module of this process, which all gateways in it share, because Cryptoki is initialized once for a process. A module sees tokens
 * that were removed or added only after it was initialized again; that waits for the calls that run.
 */
import type { Clock } from '../../../ports/clock.ts';
import { type Cryptoki, loadCryptoki } from './cryptoki.ts';

/** The shortest time between two initializations. */
const resetEveryMs = 2_000;
/** How long an initialization waits for the calls that run. Others wait for it meanwhile. */
const drainMs = 1_000;

export class SecurityModule {
  readonly #cryptoki: Cryptoki;
  /** Sessions and handles of an earlier generation are of no use. */
  generation = 0;
  readonly #running = new Set<object>();
  /** Calls for which an initialization has waited in vain. */
  #hanging: readonly object[] = [];
  #drained: (() => void) | undefined;
  #reset: Promise<void> | undefined;
  #resetAt = Number.NEGATIVE_INFINITY;

  constructor(cryptoki: Cryptoki) {
    this.#cryptoki = cryptoki;
  }

  async run<T>(call: (cryptoki: Cryptoki) => Promise<T>): Promise<T> {
    // No `await` between the last look and the count: a call must not run beside C_Finalize.
    while (this.#reset !== undefined) await this.#reset;
    const running = {};
    this.#running.add(running);
    try {
      return await call(this.#cryptoki);
    } finally {
      this.#running.delete(running);
      if (this.#running.size === 0) this.#drained?.();
    }
  }

  /**
   * Initializes the module again, unless that was done a moment ago or a call of it never returns. Not to be called inside of `run`.
   */
  async reset(clock: Pick<Clock, 'elapsed' | 'sleep'>): Promise<void> {
    if (this.#hanging.some((call) => this.#running.has(call))) return;
    if (this.#reset === undefined && clock.elapsed() - this.#resetAt < resetEveryMs) return;
    this.#reset ??= this.#initializeAgain(clock).finally(() => {
      this.#reset = undefined;
      this.#resetAt = clock.elapsed();
    });
    await this.#reset;
  }

  async #initializeAgain(clock: Pick<Clock, 'sleep'>): Promise<void> {
    if (this.#running.size > 0) {
      const waited = new AbortController();
      const drained = new Promise<void>((resolve) => {
        this.#drained = resolve;
      });
      await Promise.race([drained, clock.sleep(drainMs, waited.signal)]);
      waited.abort();
      this.#drained = undefined;
      this.#hanging = [...this.#running];
      if (this.#hanging.length > 0) return;
    }
    this.generation += 1;
    await this.#cryptoki.finalize().catch(() => undefined);
    await this.#cryptoki.initialize();
  }
}

const modules = new Map<string, Promise<SecurityModule>>();

/** @throws Error where the module or koffi cannot be loaded */
export function openModule(path: string): Promise<SecurityModule> {
  const known = modules.get(path);
  if (known !== undefined) return known;
  const opened = loadCryptoki(path).then(async (cryptoki) => {
    await cryptoki.initialize();
    return new SecurityModule(cryptoki);
  });
  modules.set(path, opened);
  opened.catch(() => modules.delete(path));
  return opened;
}

/**
 * A PKCS#11 module of this process, which all gateways in it share, because Cryptoki is initialized once for a process. A module sees tokens
 * that were removed or added only after it was initialized again; that waits for the calls that run.
 */
import type { Clock } from '../../../ports/clock.ts';
import { type Cryptoki, loadCryptoki } from './cryptoki.ts';

/** The shortest time between two initializations. */
const resetEveryMs = 2_000;

export class SecurityModule {
  readonly #cryptoki: Cryptoki;
  /** Sessions and handles of an earlier generation are of no use. */
  generation = 0;
  #running = 0;
  #drained: (() => void) | undefined;
  #reset: Promise<void> | undefined;
  #resetAt = Number.NEGATIVE_INFINITY;

  constructor(cryptoki: Cryptoki) {
    this.#cryptoki = cryptoki;
  }

  async run<T>(call: (cryptoki: Cryptoki) => Promise<T>): Promise<T> {
    // No `await` between the last look and the count: a call must not run beside C_Finalize.
    while (this.#reset !== undefined) await this.#reset;
    this.#running += 1;
    try {
      return await call(this.#cryptoki);
    } finally {
      this.#running -= 1;
      if (this.#running === 0) this.#drained?.();
    }
  }

  /** Initializes the module again, unless that was done a moment ago. Not to be called inside of `run`. */
  async reset(clock: Pick<Clock, 'elapsed'>): Promise<void> {
    if (this.#reset === undefined && clock.elapsed() - this.#resetAt < resetEveryMs) return;
    this.#reset ??= this.#initializeAgain().finally(() => {
      this.#reset = undefined;
      this.#resetAt = clock.elapsed();
    });
    await this.#reset;
  }

  async #initializeAgain(): Promise<void> {
    if (this.#running > 0)
      await new Promise<void>((resolve) => {
        this.#drained = resolve;
      });
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

/** One token: its sessions, the log-in, and the handles of its keys. */
import { Semaphore, SharedSemaphore } from '../../base/mutex.ts';
import type { Clock } from '../../ports/clock.ts';
import { KeyFailure } from '../../ports/key-provider.ts';
import { type Cryptoki, codes, type FoundKey, loadCryptoki, Pkcs11Error, pinFlags } from './cryptoki.ts';

interface TokenOptions {
  readonly module: SecurityModule;
  readonly label: string;
  readonly sessions: number;
  readonly clock: Pick<Clock, 'elapsed' | 'sleep'>;
  /** The time-out of the provider's callers, ms. A call of the module that runs longer counts as hanging. */
  readonly timeoutMs: number;
  readPin(): Promise<string>;
}

/** The session and the call that a piece of work uses. */
export interface Session {
  readonly cryptoki: Cryptoki;
  readonly handle: bigint;
}

/** How long handles count as known: a key that was generated meanwhile wraps after this time. */
const keysCacheMs = 10_000;
const namesMax = 1_024;
/** The key is of another kind, or not made for wrapping: the device works. */
const keyFaults: ReadonlySet<number> = new Set([
  codes.keySizeRange,
  codes.keyTypeInconsistent,
  codes.keyFunctionNotPermitted,
]);
const refusals: ReadonlySet<number> = new Set([codes.pinIncorrect, codes.pinInvalid, codes.pinLength]);

export class Token {
  readonly #options: TokenOptions;
  /** Of accounts: calls are short, so one account may hold all sessions while no other one waits. */
  readonly #turns: SharedSemaphore;
  /** When each piece of work began that has not ended. */
  readonly #begun = new Set<{ readonly at: number }>();
  readonly #idle: bigint[] = [];
  readonly #keys = new Map<string, { readonly keys: readonly FoundKey[]; readonly until: number }>();
  #generation = -1;
  #slot: bigint | undefined;
  /** Log-ins run one after the other, so that a wrong PIN is tried once and not by every session. */
  readonly #logins = new Semaphore(1);
  /** A PIN that was refused is not tried again, because a few wrong ones lock the token. */
  #refusedPin: string | undefined;

  constructor(options: TokenOptions) {
    this.#options = options;
    this.#turns = new SharedSemaphore(options.sessions, Number.POSITIVE_INFINITY);
  }

  /** Runs a piece of work in a session, in a turn of its owner. @throws KeyFailure `unavailable` where the token does not answer */
  async use<T>(work: (session: Session) => Promise<T>, owner = ''): Promise<T> {
    const { module, clock } = this.#options;
    this.#assertAnswers();
    try {
      return await this.#turns.run(owner, () =>
        this.#noted(() => module.run((cryptoki) => this.#inSession(cryptoki, work))),
      );
    } catch (cause) {
      if (!(cause instanceof KeyFailure) || cause.reason !== 'unavailable') throw cause;
      this.#keys.clear();
      // The token may be there again: the next call finds out.
      await module.reset(clock).catch(() => undefined);
      throw cause;
    }
  }

  /** The keys with a label: one for each version. */
  async findKeys({ cryptoki, handle }: Session, label: string): Promise<readonly FoundKey[]> {
    const { clock } = this.#options;
    const known = this.#keys.get(label);
    if (known !== undefined && clock.elapsed() < known.until) return known.keys;
    const keys = await cryptoki.findKeys(handle, label);
    if (keys.length === 0) await this.assertPresent(cryptoki);
    if (this.#keys.size >= namesMax) this.#keys.clear();
    if (keys.length > 0) this.#keys.set(label, { keys, until: clock.elapsed() + keysCacheMs });
    return keys;
  }

  /** A module may answer for a token that was removed. */
  async assertPresent(cryptoki: Cryptoki): Promise<void> {
    if ((await cryptoki.findSlot(this.#options.label)) === undefined) throw this.#absent();
  }

  async #noted<T>(work: () => Promise<T>): Promise<T> {
    const begun = { at: this.#options.clock.elapsed() };
    this.#begun.add(begun);
    try {
      return await work();
    } finally {
      this.#begun.delete(begun);
    }
  }

  #countHanging(): number {
    const { clock, timeoutMs } = this.#options;
    const since = clock.elapsed() - timeoutMs;
    return [...this.#begun].filter(({ at }) => at <= since).length;
  }

  /** While calls hang in every session, further ones are refused at once: they would wait for a session. */
  #assertAnswers(): void {
    const { label, sessions } = this.#options;
    const hanging = this.#countHanging();
    if (hanging < sessions) return;
    throw new KeyFailure(
      'unavailable',
      `token ${label}: ${hanging} calls of the module have not returned; restart the process if they never do`,
    );
  }

  /** Whether a call of the module hangs. */
  get isStuck(): boolean {
    return this.#countHanging() > 0;
  }

  /** A module in which a call hangs is left as it is. */
  async close(): Promise<void> {
    const { module } = this.#options;
    if (this.isStuck) return;
    await module.run(async (cryptoki) => {
      // Handles of an earlier generation may now be sessions of other tokens.
      if (this.#generation !== module.generation) return;
      for (const session of this.#idle.splice(0)) await cryptoki.closeSession(session).catch(() => undefined);
    });
  }

  async #inSession<T>(cryptoki: Cryptoki, work: (session: Session) => Promise<T>): Promise<T> {
    let handle: bigint | undefined;
    try {
      handle = await this.#acquire(cryptoki);
      const result = await work({ cryptoki, handle });
      this.#idle.push(handle);
      return result;
    } catch (thrown) {
      const cause =
        thrown instanceof Pkcs11Error && keyFaults.has(thrown.code)
          ? new KeyFailure('denied', `the key cannot wrap: ${thrown.message}`, { cause: thrown })
          : thrown;
      if (cause instanceof KeyFailure && cause.reason !== 'unavailable') {
        if (handle !== undefined) this.#idle.push(handle);
        throw cause;
      }
      // It may be of no use any more.
      if (handle !== undefined) await cryptoki.closeSession(handle).catch(() => undefined);
      if (cause instanceof KeyFailure) throw cause;
      const why = cause instanceof Pkcs11Error ? cause.message : String(cause);
      throw new KeyFailure('unavailable', `token ${this.#options.label}: ${why}`, { cause });
    }
  }

  async #acquire(cryptoki: Cryptoki): Promise<bigint> {
    const { module, label } = this.#options;
    if (this.#generation !== module.generation) {
      this.#idle.length = 0;
      this.#keys.clear();
      this.#slot = undefined;
      this.#generation = module.generation;
    }
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    this.#slot ??= await cryptoki.findSlot(label);
    if (this.#slot === undefined) throw this.#absent();
    const session = await cryptoki.openSession(this.#slot);
    const slot = this.#slot;
    await this.#logins
      .run(() => this.#login(cryptoki, slot, session))
      .catch(async (cause: unknown) => {
        await cryptoki.closeSession(session).catch(() => undefined);
        throw cause;
      });
    return session;
  }

  /** @throws KeyFailure where a log-in with a wrong PIN would lock the token, because other processes may try the same PIN */
  async #assertHasTries(cryptoki: Cryptoki, slot: bigint): Promise<void> {
    const { label } = this.#options;
    const flags = await cryptoki.tokenFlags(slot);
    if ((flags & pinFlags.locked) !== 0n) throw this.#locked();
    if ((flags & pinFlags.finalTry) !== 0n)
      throw new KeyFailure(
        'unavailable',
        `one more wrong PIN locks token ${label}, so none is tried; check SVC_PKCS11_PIN_FILE, and log in once with another tool and the right PIN`,
      );
  }

  async #login(cryptoki: Cryptoki, slot: bigint, session: bigint): Promise<void> {
    if (await cryptoki.isLoggedIn(session)) return;
    const pin = await this.#options.readPin();
    const refused = (): KeyFailure =>
      new KeyFailure(
        'unavailable',
        `token ${this.#options.label} refused the PIN of SVC_PKCS11_PIN_FILE; it is tried again once the file has another`,
      );
    if (pin === this.#refusedPin) throw refused();
    await this.#assertHasTries(cryptoki, slot);
    try {
      await cryptoki.login(session, new TextEncoder().encode(pin));
    } catch (cause) {
      if (cause instanceof Pkcs11Error && cause.code === codes.pinLocked) throw this.#locked();
      if (!(cause instanceof Pkcs11Error) || !refusals.has(cause.code)) throw cause;
      this.#refusedPin = pin;
      throw refused();
    }
  }

  #locked(): KeyFailure {
    const { label } = this.#options;
    return new KeyFailure('unavailable', `the PIN of token ${label} is locked; the SO PIN unlocks it`);
  }

  #absent(): KeyFailure {
    return new KeyFailure('unavailable', `there is no token ${this.#options.label}`);
  }
}

// A PKCS#11 module of this process, which all gateways in it share, because Cryptoki is initialized once for a process.
// A module sees tokens that were removed or added only after it was initialized again; that waits for the calls that
// run.

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

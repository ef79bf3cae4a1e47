/**
 * The token for a transit engine: obtained by a login, renewed in the background at two thirds of its life, and replaced by a new login
 * once it cannot be renewed or is refused.
 */
import type { Clock } from '../../ports/clock.ts';
import { KeyFailure } from '../../ports/key-provider.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { type Lease, reasonOf, type TransitAuth, type TransitCalls } from './login.ts';

export interface SessionOptions {
  readonly calls: TransitCalls;
  readonly auth: TransitAuth;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'log'>;
}

/** A shorter life than this part of the first one says that the token nears its maximum: log in again. */
const shortened = 1 / 3;
/** The pause after a renewal that failed for want of an answer, and the shortest one between renewals. */
const pauseMs = 5_000;
const pauseMinMs = 500;
/** A token that can be renewed is renewed at least this often, however long its life is, because the engine may shorten it meanwhile. */
const renewalMsMax = 24 * 60 * 60_000;

export class TransitSession {
  readonly #options: SessionOptions;
  readonly #closing = new AbortController();
  #lease: { readonly value: Lease; readonly until: number } | undefined;
  #login: Promise<string> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** A token that has not expired. Callers that arrive together wait for one login. */
  async token(): Promise<string> {
    const lease = this.#lease;
    if (lease !== undefined && this.#options.clock.elapsed() < lease.until) return lease.value.token;
    return this.#logIn();
  }

  /** @returns another token than the refused one; undefined where that is valid, so it was refused for the sake of its policies */
  async replace(refused: string): Promise<string | undefined> {
    if (this.#lease !== undefined && this.#lease.value.token !== refused) return this.token();
    if (this.#login === undefined) {
      const { status } = await this.#options.calls.ask('GET', 'auth/token/lookup-self', { token: refused });
      if (status === 200) return undefined;
    }
    const next = await this.#logIn();
    return next === refused ? undefined : next;
  }

  close(): void {
    this.#closing.abort();
  }

  #logIn(): Promise<string> {
    this.#login ??= this.#options.auth
      .login(this.#options.calls)
      .then((lease) => {
        this.#keep(lease, lease.lifeMs);
        return lease.token;
      })
      .finally(() => {
        this.#login = undefined;
      });
    return this.#login;
  }

  #keep(value: Lease, firstLifeMs: number): void {
    const { clock } = this.#options;
    const { lifeMs, isRenewable } = value;
    const held = { value, until: clock.elapsed() + lifeMs };
    this.#lease = held;
    if (lifeMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.min((lifeMs * 2) / 3, isRenewable ? renewalMsMax : Number.POSITIVE_INFINITY);
    void this.#renewAfter(waitMs, held, firstLifeMs);
  }

  async #renewAfter(
    ms: number,
    held: { readonly value: Lease; readonly until: number },
    firstLifeMs: number,
  ) {
    const { clock, telemetry } = this.#options;
    await clock.sleep(Math.max(pauseMinMs, ms), this.#closing.signal);
    if (this.#closing.signal.aborted || this.#lease !== held) return;
    try {
      const next = await this.#renew(held.value);
      if (next !== undefined && next.lifeMs >= firstLifeMs * shortened) this.#keep(next, firstLifeMs);
      else await this.#logIn();
    } catch (cause) {
      telemetry.log('WARN', 'the token of the key provider could not be renewed', { cause });
      if (clock.elapsed() + pauseMs < held.until) void this.#renewAfter(pauseMs, held, firstLifeMs);
    }
  }

  /** Undefined where the token cannot be renewed any more. @throws KeyFailure where there is no answer */
  async #renew({ token, isRenewable }: Lease): Promise<Lease | undefined> {
    if (!isRenewable) return undefined;
    const { calls } = this.#options;
    const reply = await calls.ask('POST', 'auth/token/renew-self', { token, body: {} });
    if (reply.status >= 500 || reply.status === 429)
      throw new KeyFailure(reasonOf(reply.status), `a renewal was answered with ${reply.status}`);
    return reply.status === 200 ? calls.leaseIn(reply.text) : undefined;
  }
}

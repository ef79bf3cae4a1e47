/**
 * Questions about keys that clients name. A name that does not exist costs a call to the provider, whose limits all
 * accounts share. So the provider's refusal of a name is cached for a while, callers of one account that name the same
 * new key together wait for one call, and an account may try only so many names that the provider refuses: further ones
 * wait while that many have no answer yet.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { KeyFailure, type KeyFailureReason, type KeyProvider } from '../../ports/key-provider.ts';

type Ctx = Pick<Context, 'caches' | 'clock' | 'keys' | 'config'>;

/** How long a refused name is refused without asking the provider. */
export const refusedMs = 10_000;
/** Refused names of an account, in a process and window, after which it may use only names that the provider knows. */
export const refusedMax = 30;
export const windowMs = 60_000;
/** A longer name is the name of no key (the AWS KMS API has the longest ones). */
const nameMax = 2_048;

interface Name {
  readonly until: number;
  /** Undefined for a name that the provider has accepted. */
  readonly refusal: KeyFailure | undefined;
}

interface Account {
  readonly until: number;
  /** Names that the provider refused. */
  refused: number;
  /** Names that the provider has not answered for yet; each may be refused. */
  running: number;
  /** Ends when the next of them is answered. */
  answered: PromiseWithResolvers<void>;
}

/** About what an entry takes besides its name. */
const entryBytes = 200;

/** By account, or by question and name. */
class NamedKeys {
  readonly names = new BoundedCache<Name>({
    name: 'key-names',
    entriesMax: 4_096,
    bytes: { max: 1 << 20, sizeOf: (_, id) => id.length + entryBytes },
  });
  readonly accounts = new BoundedCache<Account>({ name: 'key-name-accounts', entriesMax: 4_096 });
  /** The questions that run, about names that were not known. */
  readonly running = new Map<string, Promise<KeyFailure | undefined>>();
}

export interface NamedKey {
  readonly name: string;
  /** The account of the caller; '' for anonymous callers, who count as one. */
  readonly account: string;
  /** The account of the bucket that the key is for, whose turn of the provider the question takes; absent: the caller's. */
  readonly owner?: string;
}

export const findPayer = ({ account, owner }: NamedKey): string => owner ?? account;

type Of = 'describe' | 'wrap';

interface Asked<T> extends NamedKey {
  readonly of: Of;
  readonly question: () => Promise<T>;
}

/** @throws SlowDown where the account tried too many names; else as `ask` does */
export function askAbout<T>(
  ctx: Ctx,
  named: NamedKey,
  { of, question }: { readonly of: Of; readonly question: (keys: KeyProvider) => Promise<T> },
): Promise<T> {
  return ask(ctx, async (keys) => {
    if (!keys.isDistant) return question(keys);
    if (named.name.length > nameMax)
      throw new KeyFailure('unknown-key', 'the name is too long to be one of a key');
    return askDistant(ctx, { ...named, of, question: () => question(keys) });
  });
}

async function askDistant<T>(ctx: Ctx, asked: Asked<T>): Promise<T> {
  const state = ctx.caches.of(NamedKeys);
  const id = questionId(asked);
  for (;;) {
    // No `await` where none runs: of callers that arrive together, one asks.
    const running = state.running.get(runningId(asked));
    const failure = running === undefined ? undefined : await running;
    if (failure !== undefined) throw failure;
    const now = ctx.clock.elapsed();
    const known = state.names.get(id);
    if (known !== undefined && now < known.until) {
      if (known.refusal !== undefined) throw known.refusal;
      return noted(ctx, state, asked);
    }
    const account = findOrAddAccount(state, asked.account, now);
    if (account.refused >= refusedMax) throw tooMany();
    if (account.refused + account.running < refusedMax) return firstAnswer(ctx, state, { asked, account });
    await account.answered.promise;
  }
}

const questionId = ({ of, name }: Pick<Asked<unknown>, 'of' | 'name'>): string => `${of} ${name}`;

/** By account, because the question of another one may wait for its turn. */
const runningId = (asked: NamedKey & Pick<Asked<unknown>, 'of'>): string =>
  `${findPayer(asked)} ${questionId(asked)}`;

const tooMany = () =>
  fail(
    'SlowDown',
    `This account named ${refusedMax} keys within a minute that the key provider refused. Use keys that exist, and retry later.`,
  );

function findOrAddAccount(state: NamedKeys, account: string, now: number): Account {
  const known = state.accounts.get(account);
  if (known !== undefined && now < known.until) return known;
  const fresh = { until: now + windowMs, refused: 0, running: 0, answered: Promise.withResolvers<void>() };
  state.accounts.set(account, fresh);
  return fresh;
}

/** Asks about a name that is not known. */
async function firstAnswer<T>(
  ctx: Ctx,
  state: NamedKeys,
  { asked, account }: { readonly asked: Asked<T>; readonly account: Account },
): Promise<T> {
  const id = runningId(asked);
  account.running += 1;
  const answer = noted(ctx, state, asked);
  const settled = answer.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!state.running.has(id)) {
    state.running.set(
      id,
      settled.then((cause) => (isOfEveryCaller(asked.of, cause) ? cause : undefined)),
    );
    void settled.then(() => state.running.delete(id));
  }
  try {
    return await answer;
  } finally {
    if (isRefusal(await settled)) account.refused += 1;
    account.running -= 1;
    account.answered.resolve();
    account.answered = Promise.withResolvers();
  }
}

const isRefusal = (cause: unknown): boolean =>
  cause instanceof KeyFailure && (cause.reason === 'unknown-key' || cause.reason === 'denied');

/**
 * Whether the failure would meet every caller who names the key now. A key's policy may allow its use by the context, which differs from
 * one bucket to the next: then the refusal of one caller says nothing about another.
 */
const isOfEveryCaller = (of: Of, cause: unknown): cause is KeyFailure =>
  cause instanceof KeyFailure && (of === 'describe' || cause.reason !== 'denied');

/** Keeps whether the provider accepted the name. */
async function noted<T>({ clock, config }: Ctx, state: NamedKeys, asked: Asked<T>): Promise<T> {
  const id = questionId(asked);
  try {
    const answer = await asked.question();
    state.names.set(id, { refusal: undefined, until: clock.elapsed() + config.SVC_DEK_CACHE_TTL });
    return answer;
  } catch (cause) {
    if (isRefusal(cause) && isOfEveryCaller(asked.of, cause))
      state.names.set(id, { refusal: cause, until: clock.elapsed() + refusedMs });
    throw cause;
  }
}

// Asks the key provider, and makes refusals of its failures (spec, "Errors").

type AskProviderCtx = Pick<Context, 'keys' | 'telemetry'>;

const codes = {
  'unknown-key': 'KMS.NotFoundException',
  denied: 'KeyDenied',
  tampered: 'KeyTampered',
  unavailable: 'KMSUnavailable',
  throttled: 'KMSUnavailable',
  'key-unavailable': 'KMSUnavailable',
} as const satisfies Readonly<Record<KeyFailureReason, string>>;

/** The label values of `svc_kms_decrypt_total`; a missing key counts as a refusal, because no caller can decrypt with it. */
const outcomes = {
  'unknown-key': 'denied',
  denied: 'denied',
  tampered: 'tampered',
  unavailable: 'unavailable',
  throttled: 'unavailable',
  'key-unavailable': 'unavailable',
} as const satisfies Readonly<Record<KeyFailureReason, string>>;

/** Refuses a configuration that asks for keys of a provider: without one, every write under it would fail. @throws InvalidArgument */
export function assertProvider(
  { keys }: { readonly keys?: KeyProvider | undefined },
  { name, value }: { readonly name: string; readonly value: string },
): void {
  if (keys !== undefined) return;
  throw invalidArgument(name, value, 'SSE-KMS needs a key provider, and SVC_KEY_PROVIDER is not configured.');
}

/** @throws KMSUnavailable, KeyDenied, KeyTampered, KMS.NotFoundException */
export async function ask<T>(
  { keys }: { readonly keys?: KeyProvider | undefined },
  question: (keys: KeyProvider) => Promise<T>,
): Promise<T> {
  if (keys === undefined) throw fail('KMSUnavailable', 'No key provider is configured.');
  try {
    return await question(keys);
  } catch (cause) {
    if (cause instanceof KeyFailure) throw fail(codes[cause.reason], { cause });
    throw cause;
  }
}

/** As `ask`, for a question that unwraps a key: its outcome is counted. */
export const askToUnwrap = (
  { keys, telemetry }: AskProviderCtx,
  question: (keys: KeyProvider) => Promise<Uint8Array>,
): Promise<Uint8Array> =>
  ask({ keys }, async (provider) => {
    try {
      const key = await question(provider);
      telemetry.count('svc_kms_decrypt_total', { outcome: 'ok' });
      return key;
    } catch (cause) {
      if (cause instanceof KeyFailure)
        telemetry.count('svc_kms_decrypt_total', { outcome: outcomes[cause.reason] });
      throw cause;
    }
  });

// Answers that cost a call to another service: callers that arrive together wait for one call, its answer is kept for a while, and a
// failure for a short while, so that refused requests do not burden the service.

interface Flight<T> {
  readonly answer: Promise<T>;
  /** By the monotonic clock; while the call runs, its answer is waited for. */
  until: number;
}

interface FlightTimes {
  readonly clock: { elapsed(): number };
  readonly cacheMs: number;
  readonly failureCacheMs: number;
}

export class TimedFlights<T> {
  readonly #flights: BoundedCache<Flight<T>>;

  constructor(limits: { readonly name: string; readonly entriesMax: number }) {
    this.#flights = new BoundedCache(limits);
  }

  async find(
    name: string,
    { clock, cacheMs, failureCacheMs }: FlightTimes,
    call: () => Promise<T>,
  ): Promise<T> {
    const known = this.#flights.get(name);
    if (known !== undefined && clock.elapsed() < known.until) return known.answer;
    const answer = call();
    const flight: Flight<T> = { answer, until: Number.POSITIVE_INFINITY };
    this.#flights.set(name, flight);
    try {
      return await answer;
    } finally {
      const lasts = await answer.then(
        () => cacheMs,
        () => failureCacheMs,
      );
      flight.until = clock.elapsed() + lasts;
    }
  }
}

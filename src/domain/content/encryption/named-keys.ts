/**
 * Questions about keys that clients name. A name that does not exist costs a call to the provider, whose limits all accounts share. So the
 * provider's refusal of a name is kept for a while, callers that name the same new key together wait for one call, and an account may try
 * only so many names that the provider refuses.
 */
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { KeyFailure, type KeyProvider } from '../../../ports/crypto/key-provider.ts';
import { ask } from './ask-provider.ts';

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
  /** Names that the provider refused, or has not answered for yet. */
  tried: number;
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
}

/** @throws SlowDown where the account tried too many names; else as `ask` does */
export function askAbout<T>(
  ctx: Ctx,
  { name, account }: NamedKey,
  {
    of,
    question,
  }: { readonly of: 'describe' | 'wrap'; readonly question: (keys: KeyProvider) => Promise<T> },
): Promise<T> {
  return ask(ctx, async (keys) => {
    if (!keys.isDistant) return question(keys);
    if (name.length > nameMax) throw new KeyFailure('unknown-key', 'the name is too long to be one of a key');
    const state = ctx.caches.of(NamedKeys);
    const id = `${of} ${name}`;
    // No `await` where none runs: of callers that arrive together, one asks.
    const running = state.running.get(id);
    const failure = running === undefined ? undefined : await running;
    if (failure !== undefined) throw failure;
    const now = ctx.clock.elapsed();
    const known = state.names.get(id);
    if (known !== undefined && now < known.until && known.refusal !== undefined) throw known.refusal;
    const answer = (): Promise<T> => noted(ctx, state, { id, question: () => question(keys) });
    if (known !== undefined && now < known.until) return answer();
    return firstAnswer(state, { id, tries: triesOf(state, account, now) }, answer);
  });
}

function triesOf(state: NamedKeys, account: string, now: number): Account {
  const known = state.accounts.get(account);
  if (known !== undefined && now < known.until) return known;
  const tries: Account = { until: now + windowMs, tried: 0 };
  state.accounts.set(account, tries);
  return tries;
}

/** Asks about a name that is not known. It counts as refused until the provider has accepted it. */
async function firstAnswer<T>(
  state: NamedKeys,
  { id, tries }: { readonly id: string; readonly tries: Account },
  answer: () => Promise<T>,
): Promise<T> {
  if (tries.tried >= refusedMax)
    throw fail(
      'SlowDown',
      `This account named ${refusedMax} keys within a minute that the key provider refused. Use keys that exist, and retry later.`,
    );
  tries.tried += 1;
  const asked = answer();
  const settled = asked.then(
    () => undefined,
    (cause: unknown) => (cause instanceof KeyFailure ? cause : undefined),
  );
  if (!state.running.has(id)) {
    state.running.set(id, settled);
    void settled.then(() => state.running.delete(id));
  }
  try {
    return await asked;
  } finally {
    if (!isRefusal(await settled)) tries.tried -= 1;
  }
}

const isRefusal = (cause: unknown): cause is KeyFailure =>
  cause instanceof KeyFailure && (cause.reason === 'unknown-key' || cause.reason === 'denied');

/** Keeps whether the provider accepted the name. */
async function noted<T>(
  { clock, config }: Ctx,
  state: NamedKeys,
  { id, question }: { readonly id: string; readonly question: () => Promise<T> },
): Promise<T> {
  try {
    const answer = await question();
    state.names.set(id, { refusal: undefined, until: clock.elapsed() + config.SVC_DEK_CACHE_TTL });
    return answer;
  } catch (cause) {
    if (isRefusal(cause)) state.names.set(id, { refusal: cause, until: clock.elapsed() + refusedMs });
    throw cause;
  }
}

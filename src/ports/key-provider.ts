/** A key-management service: its keys never leave it and wrap the keys of this service. */
import type { CallUse } from './trace.ts';

/**
 * A name in the context: the ARN of the bucket, or of the object. The provider binds the key to its value and logs it;
 * a client cannot set it (public API).
 */
export const arnName = 'aws:s3:arn';

/** The purpose of a wrapped key; it can be unwrapped only with the same context. */
export type KeyContext = Readonly<Record<string, string>>;

export interface WrappedKey {
  /** The provider's id of the wrapping key, also when the caller used an alias. */
  readonly keyId: string;
  readonly wrapped: Uint8Array;
}

/** The circuit breaker of a provider, in one process. */
export interface KeyCircuit {
  /** While it is open, calls are refused without asking the provider. */
  readonly isOpen: boolean;
  /** Calls in a row that had no answer. */
  readonly failures: number;
  /** What the last such call got, and when, in ms since the epoch; undefined once a call was answered. */
  readonly lastFailure?: { readonly message: string; readonly at: number } | undefined;
}

/** The accounts that may use a key: a set of names, or every account. */
export type KeyAccounts = 'every' | ReadonlySet<string>;

/** A key and its policy. */
export interface KeyDescription {
  /** The provider's id of the key, also when the caller used an alias. */
  readonly keyId: string;
  readonly encryptsFor: KeyAccounts;
  /** `reader`: every caller that may read the object, also an anonymous one. */
  readonly decryptsFor: KeyAccounts | 'reader';
}

/** Every call may reject with a `KeyFailure`, and with nothing else. */
export interface KeyProvider {
  /** Its keys are outside of this process. Callers cache what `unwrap` returned, for `SVC_DEK_CACHE_TTL` at most. */
  readonly isDistant?: true;
  /**
   * Finds a key, without using it.
   * @param keyId an id, an alias or an ARN of either
   */
  describe(keyId: string, use?: CallUse): Promise<KeyDescription>;
  /**
   * Generates a random key of 32 bytes and wraps it.
   * @param keyId an id or an alias
   */
  generate(
    keyId: string,
    context: KeyContext,
    use?: CallUse,
  ): Promise<WrappedKey & { readonly key: Uint8Array }>;
  /** Wraps an existing key. */
  wrap(keyId: string, key: Uint8Array, context: KeyContext, use?: CallUse): Promise<WrappedKey>;
  unwrap(wrapped: WrappedKey, context: KeyContext, use?: CallUse): Promise<Uint8Array>;
  /**
   * Wraps the same key under the current version of its wrapping key. Undefined where that is known to have wrapped it already. Absent
   * where the provider's keys have no versions.
   */
  rewrap?(wrapped: WrappedKey, context: KeyContext, use?: CallUse): Promise<WrappedKey | undefined>;
  /** Resolves if the provider answers and accepts the credentials of this process; for readiness. Absent where it is in this process. */
  probe?(): Promise<void>;
  /** What its circuit breaker knows. Absent where it has none. */
  circuit?(): KeyCircuit;
  /** A call of a native library has not returned: while it runs, the process cannot exit by itself. */
  isStuck?(): boolean;
  close?(): Promise<void>;
}

/**
 * - `denied`: another key wrapped it, or we may not use the key, or not for this
 * - `tampered`: the wrapped key was changed, or has another context
 * - `unavailable`: no whole answer, or one that says that the provider fails
 * - `throttled`: the provider answers, and takes no more calls for a while
 * - `key-unavailable`: the provider answers, and cannot use this one key for a while
 */
export type KeyFailureReason =
  | 'unknown-key'
  | 'denied'
  | 'tampered'
  | 'unavailable'
  | 'throttled'
  | 'key-unavailable';

export class KeyFailure extends Error {
  readonly reason: KeyFailureReason;

  constructor(reason: KeyFailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The same call may succeed later. */
const passing: ReadonlySet<KeyFailureReason> = new Set(['unavailable', 'throttled', 'key-unavailable']);
export const isPassing = (cause: unknown): boolean =>
  cause instanceof KeyFailure && passing.has(cause.reason);

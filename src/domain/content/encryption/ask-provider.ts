/** Asks the key provider, and makes refusals of its failures (spec, "Errors"). */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { KeyFailure, type KeyFailureReason, type KeyProvider } from '../../../ports/crypto/key-provider.ts';

type Ctx = Pick<Context, 'keys' | 'telemetry'>;

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
  throw fail('InvalidArgument', {
    message: 'SSE-KMS needs a key provider, and SVC_KEY_PROVIDER is not configured.',
    elements: { ArgumentName: name, ArgumentValue: value },
  });
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
  { keys, telemetry }: Ctx,
  question: (keys: KeyProvider) => Promise<Uint8Array>,
): Promise<Uint8Array> =>
  ask({ keys }, async (provider) => {
    try {
      const key = await question(provider);
      telemetry.keyUnwrapped('ok');
      return key;
    } catch (cause) {
      if (cause instanceof KeyFailure) telemetry.keyUnwrapped(outcomes[cause.reason]);
      throw cause;
    }
  });

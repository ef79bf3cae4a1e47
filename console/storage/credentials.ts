/**
 * Temporary credentials for the storage protocol, in the memory of this page only. They are renewed while they are used, and they end with
 * the log-in.
 */
import { type Answer, call } from '../app/client.ts';

export type StorageCredentials = Answer<'CreateSessionCredentials'>;

/** Renewed when less is left: a request that is signed now may wait in a queue. */
const renewBeforeMs = 4 * 60_000;

let current: Promise<StorageCredentials> | undefined;
let expires = 0;
/** Counts log-outs: credentials that arrive after one are dropped. */
let generation = 0;

export function forgetCredentials(): void {
  current = undefined;
  expires = 0;
  generation += 1;
}

/**
 * @param leftMs the credentials stay valid for this time, as far as credentials live so long: a presigned link ends with them
 * @throws Refused, Unreachable
 */
export async function storageCredentials(leftMs = 0): Promise<StorageCredentials> {
  if (current !== undefined && Date.now() < expires - Math.max(renewBeforeMs, leftMs)) return current;
  const asked = generation;
  const fresh = call('CreateSessionCredentials');
  current = fresh;
  // Others wait for this answer; the time is set when it has come.
  expires = Number.POSITIVE_INFINITY;
  try {
    const found = await fresh;
    if (asked === generation) expires = Date.parse(found.expiresAt);
    return found;
  } catch (cause) {
    if (asked === generation) forgetCredentials();
    throw cause;
  }
}

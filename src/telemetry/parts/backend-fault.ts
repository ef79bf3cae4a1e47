/** Says why a call to a backend failed, for `svc_backend_errors_total`. */
import { Refusal } from '../../errors/refusal.ts';
import { MetadataDamaged, StoreRefused, StoreUnavailable } from '../../ports/metadata-store.ts';
import {
  ChunkDamaged,
  ChunkMissing,
  ContentMismatch,
  DataUnavailable,
  PartsChanged,
  UploadGone,
} from '../../ports/storage/object-bytes.ts';
import { isStorageFull, isStorageReadOnly } from '../../ports/storage/storage-room.ts';
import type { BackendFault } from '../../ports/telemetry.ts';

type Kind = abstract new (...parameters: never[]) => Error;

/** The client's doing, or an outcome that the caller expects. */
const expected: readonly Kind[] = [Refusal, ContentMismatch, PartsChanged, UploadGone];
const kinds: readonly (readonly [Kind, BackendFault])[] = [
  [StoreUnavailable, 'unavailable'],
  [DataUnavailable, 'unavailable'],
  [StoreRefused, 'refused'],
  [MetadataDamaged, 'damaged'],
  [ChunkDamaged, 'damaged'],
  [ChunkMissing, 'missing'],
];
const depthMax = 8;

/** @returns undefined where the backend is not at fault: a client broke off, or its content was refused */
export function backendFaultOf(cause: unknown): BackendFault | undefined {
  if (isStorageFull(cause)) return 'full';
  if (isStorageReadOnly(cause)) return 'read-only';
  const chain = causesOf(cause);
  if (chain.some((each) => isAbort(each) || expected.some((kind) => each instanceof kind))) return undefined;
  if (chain.some(isTimeout)) return 'timeout';
  for (const each of chain) for (const [kind, why] of kinds) if (each instanceof kind) return why;
  return 'other';
}

function causesOf(error: unknown): readonly Error[] {
  const chain: Error[] = [];
  for (let at = error; at instanceof Error && chain.length < depthMax; at = at.cause) chain.push(at);
  return chain;
}

const isAbort = ({ name }: Error): boolean => name === 'AbortError';

const timeoutCodes: ReadonlySet<unknown> = new Set([
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  110,
]);

/** Drivers of engines have no common class for it. */
const isTimeout = (error: Error): boolean =>
  error.name === 'TimeoutError' ||
  timeoutCodes.has((error as { readonly code?: unknown }).code) ||
  /time(?:d[ -]?)?[ -]?out|deadline exceeded|no answer (?:in|with)/i.test(error.message);

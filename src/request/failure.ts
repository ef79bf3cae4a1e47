/** The one place that maps an error to the reply of the client, of a request or of one key of DeleteObjects, and to the line of the log. */
import { fail, Refusal } from '../base/errors.ts';
import { isStorageFull, isStorageReadOnly } from '../ports/chunk-store.ts';
import { SecretUnreadable } from '../ports/cryptography.ts';
import { MetadataDamaged, StoreUnavailable } from '../ports/metadata-store.ts';
import { ChunkDamaged, ChunkMissing, DataUnavailable } from '../ports/object-bytes.ts';
import type { Fields, LogLevel } from '../ports/telemetry.ts';

const readOnlyMessage =
  'The storage of this service is read-only at the moment: objects can be read, and nothing can be written or deleted.';

export interface Failure {
  readonly refusal: Refusal;
  /** `INFO` for what a client did, else the fault of the service. */
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Fields;
}

/** The refusal for the client: a `Refusal` unchanged, any other error as an internal error. */
export function toFailure(cause: unknown, signal: AbortSignal): Failure {
  if (cause instanceof Refusal) {
    const fields = cause.cause === undefined ? {} : { cause: cause.cause };
    return { refusal: cause, level: 'INFO', message: 'request refused', fields };
  }
  if (isStorageFull(cause))
    return {
      refusal: fail('InsufficientStorage', { cause }),
      level: 'WARN',
      message: 'the storage is full',
      fields: { cause },
    };
  if (isStorageReadOnly(cause))
    return {
      refusal: fail('ServiceUnavailable', { cause, message: readOnlyMessage }),
      level: 'ERROR',
      message: 'the storage is read-only',
      fields: { cause },
    };
  if (cause instanceof StoreUnavailable)
    return {
      refusal: fail('ServiceUnavailable', { cause }),
      level: 'WARN',
      message: 'the metadata store is unavailable',
      fields: { cause },
    };
  if (cause instanceof MetadataDamaged)
    return {
      refusal: fail('MetadataDamaged', { cause }),
      level: 'ERROR',
      message: 'metadata is damaged: see docs/recovery.md',
      fields: { table: cause.table, row: cause.row, cause },
    };
  if (cause instanceof ChunkDamaged || cause instanceof ChunkMissing)
    return {
      refusal: fail('InternalError', { cause }),
      level: 'ERROR',
      message: 'bytes of an object are damaged or missing: see docs/recovery.md',
      fields: { cause },
    };
  if (cause instanceof SecretUnreadable)
    return {
      refusal: fail('SecretUnreadable', { cause }),
      level: 'ERROR',
      message:
        'a secret does not open: SVC_MASTER_KEY_FILE lacks the key that sealed it; see docs/recovery.md',
      fields: { cause },
    };
  if (cause instanceof DataUnavailable)
    return {
      refusal: fail('ServiceUnavailable', { cause }),
      level: 'WARN',
      message: 'a data cluster is unavailable',
      fields: { cause },
    };
  if (signal.aborted)
    return {
      refusal: fail('RequestTimeout', { cause }),
      level: 'DEBUG',
      message: 'client went away',
      fields: { cause },
    };
  return {
    refusal: fail('InternalError', { cause }),
    level: 'ERROR',
    message: 'request failed',
    fields: { cause },
  };
}

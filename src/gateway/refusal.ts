/** The one place that maps an error to the reply of the client. */
import type { Context } from '../context.ts';
import { fail, Refusal } from '../errors/refusal.ts';
import { MetadataDamaged, StoreUnavailable } from '../ports/metadata-store.ts';
import { DataUnavailable } from '../ports/storage/object-bytes.ts';
import { isStorageFull, isStorageReadOnly } from '../ports/storage/storage-room.ts';
import type { Received } from './request.ts';

const readOnlyMessage =
  'The storage of this service is read-only at the moment: objects can be read, and nothing can be written or deleted.';

/** The refusal for the client: a `Refusal` unchanged, any other error as an internal error. */
export function toRefusal(
  ctx: Pick<Context, 'telemetry'>,
  cause: unknown,
  { requestId, operation, path, incoming, signal }: Received,
): Refusal {
  const fields = { request_id: requestId, operation, method: incoming.wire.method, path };
  if (cause instanceof Refusal) {
    ctx.telemetry.log('DEBUG', 'request refused', { ...fields, code: cause.code });
    return cause;
  }
  if (isStorageFull(cause)) {
    ctx.telemetry.log('WARN', 'the storage is full', { ...fields, cause });
    return fail('InsufficientStorage', { cause });
  }
  if (isStorageReadOnly(cause)) {
    ctx.telemetry.log('ERROR', 'the storage is read-only', { ...fields, cause });
    return fail('ServiceUnavailable', { cause, message: readOnlyMessage });
  }
  if (cause instanceof StoreUnavailable) {
    ctx.telemetry.log('WARN', 'the metadata store is unavailable', { ...fields, cause });
    return fail('ServiceUnavailable', { cause });
  }
  if (cause instanceof MetadataDamaged) {
    const { table, row } = cause;
    ctx.telemetry.log('ERROR', 'metadata is damaged: see docs/recovery.md', { ...fields, table, row, cause });
    return fail('MetadataDamaged', { cause });
  }
  if (cause instanceof DataUnavailable) {
    ctx.telemetry.log('WARN', 'a data cluster is unavailable', { ...fields, cause });
    return fail('ServiceUnavailable', { cause });
  }
  if (signal.aborted) {
    ctx.telemetry.log('DEBUG', 'client went away', { ...fields, cause });
    return fail('RequestTimeout', { cause });
  }
  ctx.telemetry.log('ERROR', 'request failed', { ...fields, cause });
  return fail('InternalError', { cause });
}

/** DeleteObject, and DeleteObjects: each key on its own, partial success preserved. */

import { authorize } from '../../auth/authorize.ts';
import { inParallel } from '../../base/concurrency.ts';
import { type ErrorCode, fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { formatVersionId, isVersionId } from '../../domain/common/ids.ts';
import { type RecordedRows, withRows } from '../../domain/common/recorder.ts';
import { openTurns } from '../../domain/common/turns.ts';
import { deleteObject, mfaRequired } from '../../domain/objects/delete-object.ts';
import { errorCatalogue } from '../../protocol/errors.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bypassAction } from '../../protocol/operations/operations.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import {
  type DeletedObject,
  type DeleteError,
  deleteRequest,
  deleteRequestLimits,
  deleteResult,
  type ObjectToDelete,
} from '../../protocol/schemas/object.ts';
import { findHolder, hasVerifiedMfa } from '../../request/body.ts';
import { toFailure } from '../../request/failure.ts';
import { assertKey, defined, keyBytesMax } from '../../request/parameters.ts';
import { type AuthorizedInBucket, admitToBucket, type KeyOutcome } from '../../request/request.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';
import { deleteConditions, entryConditions } from '../object/conditions.ts';
import { asksBypass, versionHeader } from '../object/object-headers.ts';

/** Keys that are deleted concurrently. */
const parallel = 16;

export const DeleteObjects: HandlerOf<'DeleteObjects'> = async (ctx, request) => {
  const { Object: objects, Quiet } = readXml(deleteRequest, 'Delete', request.body, deleteRequestLimits);
  const isPermanent = objects.some(({ VersionId }) => VersionId !== undefined);
  // One code is valid for all keys: without it, or with a wrong one, nothing is deleted (public API).
  const mfa = request.bucket.mfaDelete === true && (await hasVerifiedMfa(ctx, request));
  if (request.bucket.mfaDelete === true && isPermanent && !mfa) throw mfaRequired();
  const turn = openTurns(ctx.clock, { account: findHolder(request), isParallel: true });
  const outcomes: One[] = new Array(objects.length);
  const audited = request.record?.ofKeys(
    objects.map(({ Key, VersionId }) => ({ key: Key, versionId: VersionId })),
  );
  const admit = openAdmission(ctx, request);
  await inParallel(parallel, entriesByKey(objects), async (entries) => {
    for (const { object, places } of entries) {
      // A thousand keys may be judged by thousands of patterns each.
      await turn();
      const begin = async () => {
        const rows: RecordedRows[] = [];
        for (const place of places) rows.push((await audited?.begin(place)) ?? []);
        return rows.flat();
      };
      const outcome = await deleteOne(ctx, request, {
        object,
        i: places[0] as number,
        mfa,
        turn,
        admit,
        begin,
      });
      for (const place of places) {
        outcomes[place] = outcome;
        audited?.settle(place, keyOutcome(outcome));
      }
    }
  });
  return xmlReply(deleteResult, 'DeleteResult', {
    Deleted:
      Quiet === true ? [] : outcomes.flatMap((outcome) => ('deleted' in outcome ? [outcome.deleted] : [])),
    Error: outcomes.flatMap((outcome) => ('error' in outcome ? [outcome.error] : [])),
  });
};

/** The request was refused as a whole, before anything was deleted. */
class NotAdmitted extends Error {}

/** Takes the place under the limit of the bucket once, when the first key is allowed. */
function openAdmission(ctx: Context, request: AuthorizedInBucket): () => Promise<void> {
  let admitting: Promise<void> | undefined;
  const take = async (): Promise<void> => {
    try {
      await admitToBucket(ctx, request);
    } catch (cause) {
      throw new NotAdmitted('the limit of the bucket is reached', { cause });
    }
  };
  return () => {
    admitting ??= take();
    return admitting;
  };
}

type One =
  | { readonly deleted: DeletedObject }
  | { readonly error: Omit<DeleteError, 'Code'> & { readonly Code: ErrorCode } };

/** As DeleteObject answers for the key. */
const keyOutcome = (outcome: One): KeyOutcome =>
  'deleted' in outcome
    ? { status: 204 }
    : { status: errorCatalogue[outcome.error.Code].status, error: outcome.error.Code };

interface Entry {
  readonly object: ObjectToDelete;
  /** The positions of the key in the request. */
  readonly places: number[];
}

/**
 * The entries of each key, in order. Those of one key take turns, because each of them replaces the same head: in parallel
 * they would lose the compare-and-set to each other. Equal entries are one deletion, which answers all of them.
 */
function entriesByKey(objects: readonly ObjectToDelete[]): readonly (readonly Entry[])[] {
  const byKey = new Map<string, Map<string, Entry>>();
  for (const [place, object] of objects.entries()) {
    const { Key, VersionId = '', ETag = '', LastModifiedTime = '', Size = '' } = object;
    const entries = byKey.get(Key) ?? new Map<string, Entry>();
    byKey.set(Key, entries);
    const name = JSON.stringify([VersionId, ETag, LastModifiedTime, Size]);
    const known = entries.get(name);
    if (known === undefined) entries.set(name, { object, places: [place] });
    else known.places.push(place);
  }
  return [...byKey.values()].map((entries) => [...entries.values()]);
}

async function deleteOne(
  ctx: Context,
  request: AuthorizedInBucket,
  {
    object,
    i,
    mfa,
    turn,
    admit,
    begin,
  }: {
    readonly object: ObjectToDelete;
    readonly i: number;
    readonly mfa: boolean;
    readonly turn: () => Promise<void>;
    readonly admit: () => Promise<void>;
    /** Called once the caller is authorized, before the deletion. @returns audit rows for its commit */
    readonly begin: () => Promise<RecordedRows>;
  },
): Promise<One> {
  const { Key, VersionId } = object;
  try {
    assertKey(Key);
    const named = new Map(VersionId === undefined ? [] : [['s3:VersionId', VersionId]]);
    const about = { bucket: request.bucket, bucketName: request.bucket.name, key: Key, named };
    const action = VersionId === undefined ? 's3:DeleteObject' : 's3:DeleteObjectVersion';
    const bypass = asksBypass(request);
    await authorize(ctx, request, { ...about, action });
    if (bypass) {
      await turn();
      await authorize(ctx, request, { ...about, action: bypassAction });
    }
    // In a list a foreign id is one that no version has (public API).
    if (VersionId !== undefined && VersionId !== '' && !isVersionId(VersionId)) throw fail('NoSuchVersion');
    const conditions = await entryConditions(ctx, request, { object, turn });
    await admit();
    const rows = await begin();
    const { version } = await deleteObject(ctx, {
      bucket: request.bucket,
      key: Key,
      ...defined({ versionId: VersionId }),
      conditions,
      bypass,
      mfa,
      owner: request.identity?.owner ?? request.bucket.owner,
      record: request.record && withRows(request.record, rows),
      requestId: request.requestId,
    });
    const marker = version?.marker
      ? { DeleteMarker: true, DeleteMarkerVersionId: formatVersionId(version) }
      : {};
    return { deleted: { Key, ...defined({ VersionId }), ...marker } };
  } catch (cause) {
    if (cause instanceof NotAdmitted) throw cause.cause;
    // As DeleteObject answers.
    const { refusal, level, fields } = toFailure(cause, request.signal);
    if (refusal !== cause) {
      const about = { request_id: request.requestId, index: i, ...fields };
      ctx.telemetry.log(level, 'a key of DeleteObjects failed', about, refusal.code, request.bucket.owner);
    }
    const Code = refusal.code;
    const Message = refusal.details.message ?? errorCatalogue[Code].message;
    return { error: { Key: Key.slice(0, keyBytesMax), ...defined({ VersionId }), Code, Message } };
  }
}

// DeleteObject.

export const DeleteObject: HandlerOf<'DeleteObject'> = async (ctx, request) => {
  const { bucket, key, record, requestId } = request;
  const versionId = request.query.get('versionId');
  const { version } = await deleteObject(ctx, {
    bucket,
    key,
    ...defined({ versionId }),
    conditions: await deleteConditions(ctx, request),
    bypass: asksBypass(request),
    mfa: bucket.mfaDelete === true && versionId !== undefined && (await hasVerifiedMfa(ctx, request)),
    owner: request.identity?.owner ?? bucket.owner,
    record,
    requestId,
  });
  const headers: HeaderPair[] = [];
  if (version?.marker) headers.push(['*-delete-marker', 'true']);
  const versionHeaders = version === undefined ? [] : versionHeader(request, version);
  headers.push(...versionHeaders);
  if (versionHeaders.length === 0 && versionId !== undefined) headers.push(['*-version-id', versionId]);
  return emptyReply(204, headers);
};

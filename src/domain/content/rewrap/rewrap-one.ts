/** Wraps one stored key again, under the revision of the row that holds it. */
import type { Context } from '../../../context.ts';
import type { ErrorCode } from '../../../errors/codes.ts';
import { Refusal } from '../../../errors/refusal.ts';
import type { Encryption } from '../../../metadata/objects/encryption.ts';
import { findSession, replaceSession } from '../../../metadata/objects/uploads.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import { isPassing, type KeyContext, KeyFailure } from '../../../ports/crypto/key-provider.ts';
import { RowTooLong } from '../../../ports/metadata-store.ts';
import { changeRow } from '../../buckets/change-bucket.ts';
import { signingContext } from '../../buckets/signing-key.ts';
import { amendVersion } from '../../objects/amend-version.ts';
import type { Ctx as CommitCtx } from '../../objects/commit-version.ts';
import { fromBase64, toBase64 } from '../digests.ts';
import { type Provided, providedContext } from '../encryption/provided-key.ts';

export type Ctx = CommitCtx & Pick<Context, 'keys' | 'telemetry'>;

/** `gone`: the row was deleted, or has another key now. */
export type Outcome = 'rewrapped' | 'current' | 'gone' | { readonly failed: string };

/** Attempts against requests that change a session. */
const attemptsMax = 4;

/** @throws KeyFailure where the call may succeed later: the walk waits and repeats the page */
async function again(
  { keys }: Ctx,
  { keyId, wrapped }: { readonly keyId: string; readonly wrapped: string },
  context: KeyContext,
): Promise<{ readonly wrapped: string } | Outcome> {
  try {
    const next = await keys?.rewrap?.({ keyId, wrapped: fromBase64(wrapped) }, context);
    return next === undefined ? 'current' : { wrapped: toBase64(next.wrapped) };
  } catch (cause) {
    if (cause instanceof KeyFailure && !isPassing(cause)) return { failed: cause.message };
    throw cause;
  }
}

/** Refusals that another attempt may not meet: the walk repeats the page. */
const passing: ReadonlySet<ErrorCode> = new Set(['OperationAborted', 'ServiceUnavailable', 'SlowDown']);

/** A row that cannot be changed is counted as failed, because it would stop the walk for ever. */
async function settled(work: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof RowTooLong) return { failed: cause.message };
    if (!(cause instanceof Refusal) || passing.has(cause.code)) throw cause;
    // The bucket or the version was deleted meanwhile.
    if (cause.code.startsWith('NoSuch')) return 'gone';
    return { failed: `${cause.code}: ${cause.message}` };
  }
}

const isWrapped = (given: { readonly wrapped: string } | Outcome): given is { readonly wrapped: string } =>
  typeof given === 'object' && 'wrapped' in given;

const isProvided = (encryption: Encryption | undefined): encryption is Provided =>
  encryption?.by === 'provider';

export const rewrapSigningKey = (ctx: Ctx, bucket: BucketRow): Promise<Outcome> =>
  settled(() => wrapSigningKey(ctx, bucket));

export const rewrapVersion = (ctx: Ctx, bucket: BucketRow, found: FoundVersion): Promise<Outcome> =>
  settled(() => wrapVersion(ctx, bucket, found));

export const rewrapUpload = (ctx: Ctx, bucket: BucketRow, uploadId: string): Promise<Outcome> =>
  settled(() => wrapUpload(ctx, bucket, uploadId));

async function wrapSigningKey(ctx: Ctx, bucket: BucketRow): Promise<Outcome> {
  const key = bucket.signingKey;
  if (key === undefined) return 'gone';
  const next = await again(ctx, key, signingContext(bucket));
  if (!isWrapped(next)) return next;
  const changed = await changeRow(ctx, bucket, {
    plan: (row) =>
      row.signingKey?.wrapped === key.wrapped
        ? { row: { ...row, signingKey: { ...key, id: key.id ?? key.wrapped, wrapped: next.wrapped } } }
        : undefined,
  });
  return changed === undefined ? 'gone' : 'rewrapped';
}

interface FoundVersion {
  readonly row: ObjectRow;
  readonly requestId: string;
}

async function wrapVersion(ctx: Ctx, bucket: BucketRow, { row, requestId }: FoundVersion): Promise<Outcome> {
  const { key, version, isNull, encryption } = row;
  if (!isProvided(encryption)) return 'gone';
  const next = await again(ctx, encryption, providedContext({ bucket, key }, encryption));
  if (!isWrapped(next)) return next;
  let isDone = false;
  const amend = (now: ObjectRow): ObjectRow => {
    isDone = now.encryption?.wrapped === encryption.wrapped;
    return isDone ? { ...now, encryption: { ...encryption, wrapped: next.wrapped } } : now;
  };
  await amendVersion(ctx, { bucket, key, versionId: isNull ? 'null' : version, requestId, amend });
  return isDone ? 'rewrapped' : 'gone';
}

async function wrapUpload(ctx: Ctx, bucket: BucketRow, uploadId: string): Promise<Outcome> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findSession(ctx.metadata, uploadId);
    const session = found?.row.session;
    if (found === undefined || session === undefined || session.state !== 'uploading') return 'gone';
    const { encryption, key } = session;
    if (!isProvided(encryption)) return 'gone';
    const next = await again(ctx, encryption, providedContext({ bucket, key }, encryption));
    if (!isWrapped(next)) return next;
    const replaced = { ...session, encryption: { ...encryption, wrapped: next.wrapped } };
    if ((await replaceSession(ctx.metadata, found, { session: replaced })).applied) return 'rewrapped';
  }
  return { failed: `upload ${uploadId} changed each time` };
}

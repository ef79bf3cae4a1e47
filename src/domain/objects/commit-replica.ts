/** Commits a replicated version at its place among the versions of its key, or the state of one that exists. */
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { newestInHistory } from '../../metadata/objects/objects.ts';
import type { Encryption, ReplicaDocument } from '../../metadata/objects/properties.ts';
import { tombstone, wasRemoved } from '../../metadata/objects/removed-versions.ts';
import { findSite } from '../../metadata/site.ts';
import {
  type BucketRow,
  checkColumns,
  type Grant,
  type Lock,
  type Manifest,
  type ObjectRow,
} from '../../metadata/tables.ts';
import type { Op, SideChange, Stored } from '../../ports/metadata-store.ts';
import { assertUnblocked } from '../access/object-ownership.ts';
import { drawVersion, versionTime } from '../common/ids.ts';
import type { Recorder } from '../common/recorder.ts';
import type { Freed } from '../quotas/amounts.ts';
import type { Reservation } from '../quotas/reservation.ts';
import { assertFits } from './amend-version.ts';
import { type CommitCtx, changeKey } from './commit-version.ts';
import { mfaRequired } from './delete-object.ts';
import { findById, findNeighbours, newerNull, planReplica } from './find-replica.ts';
import { assertLockable, lockAtWrite, lockTime } from './object-lock.ts';
import { effectiveStamp } from './stamp.ts';
import { type FreshVersion, type Plan, planRemoveVersion } from './versions.ts';

/** `present`: nothing changed. `superseded`: the site has a later state. `removed`: the site has removed the version permanently. */
export type ReplicaOutcome = 'stored' | 'present' | 'superseded' | 'removed';

/** What a replica does to the key, as far as the public API has actions for it. */
export type ReplicaEffect =
  | 'content'
  | 'tags'
  | 'acl'
  | 'retention'
  | 'bypass'
  | 'legal-hold'
  | 'delete-marker'
  | 'removal';

export interface ReplicaEffects {
  readonly effects: readonly ReplicaEffect[];
  /** The version that the site has already. */
  readonly existing?: ObjectRow;
}

/** A replicated version as a request brings it; owner and ACL are those of this site. */
export interface Replica {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly document: ReplicaDocument;
  readonly owner: string;
  readonly acl?: readonly Grant[] | undefined;
  /** Called before each commit. @throws AccessDenied unless the caller may have these effects */
  readonly assertMay: (effects: ReplicaEffects) => Promise<void>;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

interface ReplicaContent {
  readonly manifest: Manifest;
  readonly encryption?: Encryption;
  readonly uploadId?: string;
  /** The ETag of the document could not be computed from the content. */
  readonly etagUnverified?: true;
}

interface ReplicaCommit {
  /** Absent: only the state of an existing version is changed. */
  readonly content?: ReplicaContent;
  readonly op?: Op;
  readonly then?: readonly SideChange[];
  /** Room that the caller has reserved and gives back. */
  readonly reservation?: Reservation;
  /** Parts that leave the counters with the version. */
  readonly freed?: Freed;
}

export interface CommittedReplica {
  readonly outcome: ReplicaOutcome;
  /** The version, also one that was removed; the newer null version where that superseded it. */
  readonly row: Pick<
    ObjectRow,
    'version' | 'isNull' | 'marker' | 'size' | 'etag' | 'checksum' | 'encryption'
  >;
  /** The version was inserted, and owns its content. */
  readonly won: boolean;
}

const aheadMax = 24 * 60 * 60 * 1000;

const formatTime = (ms: number): string => new Date(ms).toISOString();

/**
 * @throws InvalidBucketState, InvalidArgument for a time too far in the future, InvalidRequest for a lock in a bucket
 * without Object Lock
 */
export function assertReceivable(
  { clock }: Pick<Context, 'clock'>,
  bucket: BucketRow,
  { version, stamp, modified, lock }: Pick<ReplicaDocument, 'version' | 'stamp' | 'modified' | 'lock'>,
): void {
  if (bucket.versioning !== 'Enabled')
    throw fail(
      'InvalidBucketState',
      `Bucket ${bucket.name} does not take replicas: its versioning must be Enabled.`,
    );
  const latest = Math.max(versionTime(version), versionTime(stamp), modified);
  if (latest > clock.now() + aheadMax)
    throw invalidArgument(
      'replica',
      version,
      `The version has the time ${formatTime(latest)}, more than 24 hours ahead of this site. Correct the clocks.`,
    );
  if (lock !== undefined) assertLockable(bucket);
}

/** @throws OperationAborted where the site has another content under the same version id */
export function assertSameContent(
  row: ObjectRow,
  { marker, isNull, size, etag, version }: ReplicaDocument,
): void {
  if (row.marker === marker && row.isNull === isNull && row.size === size && row.etag === etag) return;
  throw fail(
    'OperationAborted',
    `Version ${version} exists here with another content: here ${describe(row)}, sent ${describe({ marker, isNull, size, etag })}. Remove one of the two versions.`,
  );
}

/** An ETag under a key of a provider is no MD5: the source derived it, or those of the parts, from its own key. */
export const hasDigestEtag = ({ encryption }: Pick<ReplicaDocument, 'encryption'>): boolean =>
  encryption?.by !== 'provider';

/** @throws BadDigest where the parts of an upload make another content than the document describes */
export function assertDescribed(
  document: ReplicaDocument,
  content: Pick<ObjectRow, 'size' | 'etag'> & Pick<Partial<ObjectRow>, 'checksum'>,
): void {
  const { size, etag, checksum } = document;
  const isOther =
    content.size !== size ||
    (hasDigestEtag(document) && content.etag !== etag) ||
    (checksum !== undefined &&
      !(
        content.checksum?.type === checksum.type &&
        content.checksum.algorithm === checksum.algorithm &&
        content.checksum.value === checksum.value
      ));
  if (isOther)
    throw fail(
      'BadDigest',
      `The parts make ${content.size} bytes with ETag ${content.etag}, and the document describes ${size} bytes with ETag ${etag}. Send the parts with the boundaries and checksums that they have at the source.`,
    );
}

const describe = ({
  marker,
  isNull,
  size,
  etag,
}: Pick<ObjectRow, 'marker' | 'isNull' | 'size' | 'etag'>): string =>
  marker ? 'a delete marker' : `${isNull ? 'a null version of ' : ''}${size} bytes with ETag ${etag}`;

/**
 * Inserts the version; where it exists already, applies the state of the document if that is later.
 * @throws NoSuchVersion where it does not exist, and its content was not sent
 */
export async function commitReplica(
  ctx: CommitCtx,
  replica: Replica,
  { content, op, then, reservation, freed }: ReplicaCommit,
): Promise<CommittedReplica> {
  const { bucket, key, document, record, requestId } = replica;
  const site = await findSite(ctx);
  let result: CommittedReplica | undefined;
  await changeKey(ctx, {
    bucket,
    key,
    requestId,
    record,
    reservation,
    freed,
    ...(op === undefined ? {} : { op }),
    id: op?.id ?? `${requestId}-${drawVersion(ctx)}`,
    async decide(state) {
      assertReceivable(ctx, state.bucket, document);
      const existing = await findById(ctx, state, document.version);
      if (existing !== undefined) {
        assertSameContent(existing.row, document);
        const decided = await decideState(ctx, replica, { bucket: state.bucket, existing, site });
        result = { ...decided, won: false };
        return decided.plan;
      }
      const around = await findNeighbours(ctx, state, document);
      const later = document.isNull ? newerNull(around, document.version) : undefined;
      if (later !== undefined && content !== undefined) {
        result = { outcome: 'superseded', row: later, won: false };
        return undefined;
      }
      if (await wasRemoved(ctx.metadata, { bucketId: state.bucket.id, key, version: document.version })) {
        result = { outcome: 'removed', row: describedRow(document), won: false };
        return undefined;
      }
      if (content === undefined)
        throw fail('NoSuchVersion', { elements: { Key: key, VersionId: document.version } });
      const fresh = await freshReplica(ctx, replica, { bucket: state.bucket, content, site });
      const { version, isNull } = document;
      const plan = planReplica(around, { fresh, version, isNull });
      if (plan.fresh === undefined) throw new Error('a replica planned no version');
      const removal = plan.gone.length > 0 ? (['removal'] as const) : [];
      await replica.assertMay({
        effects: [...(await effectsOfNew(ctx, replica)), ...removal],
      });
      assertFits(plan.fresh);
      result = { outcome: 'stored', row: plan.fresh, won: true };
      // The side changes prove that the version was inserted.
      return then === undefined ? plan : { ...plan, then };
    },
  });
  if (result === undefined) throw new Error('nothing was decided');
  // A removal that came before this commit found no version; its tombstone is there by now.
  const { version } = document;
  if (!result.won || !(await wasRemoved(ctx.metadata, { bucketId: bucket.id, key, version }))) return result;
  await removeReplica(ctx, { bucket, key, version, requestId });
  return { ...result, outcome: 'removed' };
}

const describedRow = ({ version, isNull, marker, size, etag, checksum }: ReplicaDocument) => ({
  ...{ version, isNull, marker, size, etag },
  ...(checksum && { checksum }),
});

async function freshReplica(
  ctx: CommitCtx,
  { key, document, owner, acl, requestId }: Replica,
  {
    bucket,
    content,
    site,
  }: { readonly bucket: BucketRow; readonly content: ReplicaContent; readonly site: string },
): Promise<FreshVersion> {
  if (acl !== undefined) await assertUnblocked(ctx, bucket, acl);
  const { marker, modified, size, etag, storageClass, headers, checksum, lock: input, trace } = document;
  const lock =
    bucket.objectLock && !marker
      ? joinLocks(await lockAtWrite(ctx, bucket, undefined), input, await lockTime(ctx))
      : undefined;
  return checkColumns('replica', {
    ...content,
    bucketId: bucket.id,
    key,
    ...(content.etagUnverified ? { etagUnverified: true } : {}),
    ...{ marker, modified, size, etag, storageClass, headers, owner, requestId },
    ...(checksum && { checksum }),
    ...(acl === undefined ? {} : { acl }),
    ...(lock && { lock }),
    replication: 'REPLICA' as const,
    ...(document.stamp === effectiveStamp({ version: document.version }) ? {} : { stamp: document.stamp }),
    trace: withSite(trace, site),
    conditional: true,
  });
}

const withSite = (trace: readonly string[], site: string): readonly string[] =>
  trace.includes(site) ? trace : [...trace, site];

interface DecidedState {
  readonly outcome: ReplicaOutcome;
  readonly row: ObjectRow;
  readonly plan?: Plan;
}

/** Tags and ACL of an existing version, if the document has later ones. Its lock is joined in any case. */
async function decideState(
  ctx: CommitCtx,
  { document, acl, assertMay }: Replica,
  {
    bucket,
    existing,
    site,
  }: { readonly bucket: BucketRow; readonly existing: Stored<ObjectRow>; readonly site: string },
): Promise<DecidedState> {
  const { row, revision } = existing;
  const former = effectiveStamp(row);
  if (row.marker || document.stamp === former) return { outcome: 'present', row };
  const isLater = document.stamp > former;
  const now = await lockTime(ctx);
  const lock = joinLocks(row.lock, document.lock, now);
  if (!isLater && lock === row.lock) return { outcome: 'superseded', row };
  const amended = isLater
    ? await withState(ctx, { row, document, acl }, { bucket, lock, site })
    : withLock(row, lock);
  assertFits(amended);
  await assertMay({ effects: effectsOfChange(row, amended, now), existing: row });
  const plan = {
    changes: [{ put: amended, expect: revision }],
    before: [row],
    gone: [],
    amended,
    former: row,
  };
  return { outcome: isLater ? 'stored' : 'superseded', row: amended, plan };
}

/** The effects of a version that the site lacks. */
export async function effectsOfNew(
  ctx: Pick<CommitCtx, 'clock' | 'metadata'>,
  { document: { marker, headers, lock = {} }, acl }: Pick<Replica, 'document' | 'acl'>,
): Promise<readonly ReplicaEffect[]> {
  if (marker) return ['delete-marker'];
  const isRetained = lock.retainUntil !== undefined && lock.retainUntil > (await lockTime(ctx));
  return [
    'content',
    ...(headers.tags === undefined ? [] : ['tags' as const]),
    ...(acl === undefined ? [] : ['acl' as const]),
    ...(isRetained ? ['retention' as const] : []),
    ...(lock.legalHold === true ? ['legal-hold' as const] : []),
  ];
}

function effectsOfChange(row: ObjectRow, amended: ObjectRow, now: number): readonly ReplicaEffect[] {
  const differs = (one: unknown, other: unknown): boolean => JSON.stringify(one) !== JSON.stringify(other);
  const [before = {}, after = {}] = [row.lock, amended.lock];
  const isRetained = before.mode !== undefined && (before.retainUntil ?? Infinity) > now;
  return [
    ...(differs(row.headers.tags, amended.headers.tags) ? ['tags' as const] : []),
    ...(differs(row.acl, amended.acl) ? ['acl' as const] : []),
    ...(before.mode !== after.mode || before.retainUntil !== after.retainUntil ? ['retention' as const] : []),
    // The public API asks for the bypass where a retention changes its mode.
    ...(isRetained && before.mode !== after.mode ? ['bypass' as const] : []),
    ...(before.legalHold !== after.legalHold ? ['legal-hold' as const] : []),
  ];
}

function withLock({ lock: _, ...row }: ObjectRow, lock: Lock | undefined): ObjectRow {
  return lock === undefined ? row : { ...row, lock };
}

async function withState(
  ctx: CommitCtx,
  {
    row,
    document,
    acl,
  }: { readonly row: ObjectRow; readonly document: ReplicaDocument; readonly acl: Replica['acl'] },
  {
    bucket,
    lock,
    site,
  }: { readonly bucket: BucketRow; readonly lock: Lock | undefined; readonly site: string },
): Promise<ObjectRow> {
  if (acl !== undefined) await assertUnblocked(ctx, bucket, acl);
  const { acl: _, ...retained } = withLock(row, lock);
  const { tags: __, ...headers } = row.headers;
  const { tags } = document.headers;
  return {
    ...retained,
    headers: tags === undefined || tags.length === 0 ? headers : { ...headers, tags },
    ...(acl === undefined ? {} : { acl }),
    stamp: document.stamp,
    trace: withSite(document.trace, site),
  };
}

// The lock of a version of which two sites have different ones.

const isCurrent = ({ mode, retainUntil = 0 }: Lock, now: number): boolean =>
  mode !== undefined && retainUntil > now;

/**
 * The stricter mode, the later end and the legal hold of either, so that a replica never weakens a lock, and all sites arrive at the same
 * one in any order. A retention that has ended counts as none.
 * @param now from `lockTime`
 * @returns `own` itself where `received` adds nothing
 */
function joinLocks(own: Lock | undefined, received: Lock | undefined, now: number): Lock | undefined {
  if (own === undefined || received === undefined) return own ?? received;
  const retention = joinRetentions(own, received, now);
  const legalHold = own.legalHold || received.legalHold ? true : own.legalHold;
  const { mode, retainUntil } = retention;
  if (mode === own.mode && retainUntil === own.retainUntil && legalHold === own.legalHold) return own;
  return {
    ...(mode === undefined || retainUntil === undefined ? {} : { mode, retainUntil }),
    ...(legalHold === undefined ? {} : { legalHold }),
  };
}

function joinRetentions(own: Lock, received: Lock, now: number): Lock {
  if (!isCurrent(received, now)) return own;
  if (!isCurrent(own, now)) return received;
  const isStrict = own.mode === 'COMPLIANCE' || received.mode === 'COMPLIANCE';
  return {
    mode: isStrict ? 'COMPLIANCE' : 'GOVERNANCE',
    retainUntil: Math.max(own.retainUntil ?? 0, received.retainUntil ?? 0),
  };
}

// Removes a version permanently because another site has done so.

interface ReplicaRemoval {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly version: string;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

/**
 * Removes a version, also one that has not arrived yet.
 * @returns whether it was there
 * @throws AccessDenied for one under Object Lock, and where the bucket requires MFA
 */
export async function removeReplica(
  ctx: CommitCtx,
  { bucket, key, version, record, requestId }: ReplicaRemoval,
): Promise<boolean> {
  const change = { bucket, key, requestId, id: `${requestId}-${drawVersion(ctx)}`, record };
  const remove = () =>
    changeKey(ctx, {
      ...change,
      async decide(state) {
        if (state.bucket.mfaDelete) throw mfaRequired();
        const target = await findById(ctx, state, version);
        if (state.head === undefined || target === undefined) return undefined;
        return planRemoveVersion(state.head, target, await newestInHistory(ctx.metadata, state.bucket, key));
      },
    });
  if ((await remove()).done === 'applied') return true;
  // A third site may still bring it. One that arrives at this moment is found by the second attempt, or finds the tombstone itself.
  const now = await ctx.metadata.now();
  const retentionMs = ctx.config.SVC_REPLICATION_TOMBSTONES;
  await ctx.metadata.apply([tombstone({ bucketId: bucket.id, key, version }, { now, retentionMs })]);
  return (await remove()).done === 'applied';
}

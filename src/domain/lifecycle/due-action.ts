/** The action that is due for an entry of the age index: reads the version or upload, and evaluates the rules. */

import type { Context } from '../../context.ts';
import {
  behind,
  findHead,
  findVersion,
  historyAt,
  markerHeadAt,
  newestInHistory,
  objectsAt,
} from '../../metadata/objects/objects.ts';
import { findSession, type StoredSession } from '../../metadata/objects/uploads.ts';
import type { AgeRow } from '../../metadata/records/ages.ts';
import { type BucketRow, headSlot, historySpace, type ObjectRow } from '../../metadata/tables.ts';
import type { MetadataStore, Stored } from '../../ports/metadata-store.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketLifecycle } from '../configurations/families.ts';
import {
  actionOnCurrent,
  actionOnNoncurrent,
  findAbort,
  findMarkerRemoval,
  type Lifecycle,
} from '../configurations/lifecycle.ts';

export type DueAction =
  | {
      readonly do: 'expire' | 'remove-noncurrent' | 'remove-marker';
      readonly rule: string;
      readonly version: Stored<ObjectRow>;
    }
  | {
      readonly do: 'transition';
      readonly rule: string;
      readonly version: Stored<ObjectRow>;
      readonly storageClass: string;
    }
  | { readonly do: 'end-restore'; readonly rule: string; readonly version: Stored<ObjectRow> }
  | { readonly do: 'abort'; readonly rule: string; readonly upload: StoredSession };

/** `stale`: the version or upload does not exist any more. */
type Found = DueAction | { readonly do: 'nothing' } | { readonly do: 'stale' };

interface Rules {
  readonly bucket: BucketRow;
  readonly lifecycle: Lifecycle;
  /** Store time. */
  readonly now: number;
}
type Metadata = Pick<MetadataStore, 'get' | 'scan'>;

const nothing = { do: 'nothing' } as const;
const stale = { do: 'stale' } as const;

export async function findDueAction(metadata: Metadata, rules: Rules, age: AgeRow): Promise<Found> {
  if (age.kind === 'upload') return findDueAbort(metadata, rules, age);
  const version = await findById(metadata, rules, age);
  if (version === undefined) return stale;
  const { row } = version;
  const { lifecycle, now } = rules;
  if (age.kind === 'restored')
    return row.restore === undefined || row.restore.expires > now
      ? nothing
      : { do: 'end-restore', rule: '', version };
  // An entry of a state that the version has left; the entry of its present state exists too.
  const state = row.slot !== headSlot ? 'noncurrent' : row.marker ? 'marker' : 'current';
  if (state !== age.kind) return nothing;
  if (state === 'marker') return findMarkerAction(metadata, rules, version);
  if (state === 'noncurrent') return findNoncurrentAction(metadata, rules, version);
  const { key, size, modified, storageClass, headers } = row;
  const { versioning } = rules.bucket;
  const isKept = versioning === 'Enabled' || (versioning === 'Suspended' && !row.isNull);
  const facts = { key, size, modified, storageClass, tags: headers.tags, isKept };
  const action = actionOnCurrent(lifecycle, facts, now);
  return action === undefined ? nothing : { ...action, version };
}

/** A version by its id, also one whose id clients see as `null`. */
async function findById(
  metadata: Metadata,
  { bucket }: Rules,
  { kind, key, version }: AgeRow,
): Promise<Stored<ObjectRow> | undefined> {
  // Most entries are of the state that the version still has.
  const likely =
    kind === 'noncurrent'
      ? await metadata.get(objectsAt(bucket), historyAt(key, version))
      : await findHead(metadata, bucket, key);
  if (likely?.row.version === version) return likely;
  const asVersion = await findVersion(metadata, bucket, key, version);
  if (asVersion !== undefined) return asVersion;
  const asNull = await findVersion(metadata, bucket, key, 'null');
  return asNull?.row.version === version ? asNull : undefined;
}

async function findDueAbort(metadata: Metadata, { lifecycle, now }: Rules, age: AgeRow): Promise<Found> {
  const upload = await findSession(metadata, age.version);
  if (
    upload === undefined ||
    upload.row.session.state === 'aborted' ||
    upload.row.session.state === 'completed'
  )
    return stale;
  const { key, initiated, state } = upload.row.session;
  if (state !== 'uploading') return nothing;
  const due = findAbort(lifecycle, { key, initiated });
  return due === undefined || due.at > now ? nothing : { do: 'abort', rule: due.rule, upload };
}

/** A delete marker is removed when no version is behind it. */
async function findMarkerAction(
  metadata: Metadata,
  { bucket, lifecycle, now }: Rules,
  version: Stored<ObjectRow>,
): Promise<Found> {
  const { key, modified } = version.row;
  const due = findMarkerRemoval(lifecycle, { key, modified });
  if (due === undefined || due.at > now) return nothing;
  if ((await newestInHistory(metadata, bucket, key)) !== undefined) return nothing;
  return { do: 'remove-marker', rule: due.rule, version };
}

async function findNoncurrentAction(
  metadata: Metadata,
  rules: Rules,
  version: Stored<ObjectRow>,
): Promise<Found> {
  const { lifecycle, now } = rules;
  const { key, size, modified, storageClass, headers, marker } = version.row;
  const { newer, since } = await findPlace(metadata, rules, version.row);
  const facts = { key, size, modified, storageClass, tags: headers.tags, since, newer };
  const action = actionOnNoncurrent(lifecycle, facts, now);
  if (action === undefined) return nothing;
  if (action.do === 'expire') return { do: 'remove-noncurrent', rule: action.rule, version };
  return marker ? nothing : { ...action, version };
}

/** More versions than a rule can keep (public API). */
const newerMax = 101;

/** How many noncurrent versions are newer, counted as far as rules ask, and when the version became noncurrent. */
async function findPlace(
  metadata: Metadata,
  { bucket, lifecycle }: Rules,
  { key, version, noncurrentSince }: ObjectRow,
): Promise<{ readonly newer: number; readonly since: number }> {
  const isCounted = lifecycle.Rule.some(
    ({ NoncurrentVersionExpiration: expiration, NoncurrentVersionTransition: moves }) =>
      [expiration, ...moves].some((each) => each?.NewerNoncurrentVersions !== undefined),
  );
  if (!isCounted && noncurrentSince !== undefined) return { newer: 0, since: noncurrentSince };
  const rows = await metadata
    .scan(objectsAt(bucket), {
      after: markerHeadAt(key),
      before: { space: historySpace, key: behind(key) },
      columns: ['version', 'modified'],
    })
    .next(newerMax);
  const at = rows.findIndex(({ row }) => row.version === version);
  const newer = at < 0 ? rows.length : at;
  if (noncurrentSince !== undefined) return { newer, since: noncurrentSince };
  const next = newer > 0 ? rows[newer - 1]?.row : (await findHead(metadata, bucket, key))?.row;
  return { newer, since: next?.modified ?? Number.MAX_SAFE_INTEGER };
}

// The lifecycle rules of a bucket as requests and the worker evaluate them.

/** The rules with the length of a day that the settings give. */
export async function readRules(
  ctx: Pick<Context, 'metadata' | 'caches' | 'config'>,
  bucket: Pick<BucketRow, 'id' | 'name' | 'documents'>,
): Promise<Lifecycle | undefined> {
  const lifecycle = await readDocument(ctx, bucket, bucketLifecycle);
  return lifecycle && { ...lifecycle, dayMs: ctx.config.SVC_LIFECYCLE_DAY };
}

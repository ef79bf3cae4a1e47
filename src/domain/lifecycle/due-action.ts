/** The action that is due for an entry of the age index: first everything about the version or upload is read, then the rules decide. */

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
import {
  type BucketRow,
  headSlot,
  historySpace,
  type ObjectRow,
  type objects,
} from '../../metadata/tables.ts';
import type { Change, MetadataStore, Stored } from '../../ports/metadata-store.ts';
import {
  actionOnCurrent,
  actionOnNoncurrent,
  findAbort,
  findMarkerRemoval,
  type Lifecycle,
} from '../configurations/lifecycle-rules.ts';

/** Checks for the commit of an action: what its rule asks of other versions of the key still holds. */
export type RestsOn = readonly Change<typeof objects>[];

interface Removal {
  readonly do: 'expire' | 'remove-noncurrent' | 'remove-marker';
  readonly rule: string;
  readonly version: Stored<ObjectRow>;
  readonly restsOn?: RestsOn;
}

export type DueAction =
  | Removal
  | {
      readonly do: 'transition';
      readonly rule: string;
      readonly version: Stored<ObjectRow>;
      readonly storageClass: string;
      readonly restsOn?: RestsOn;
      /** What to do when the version cannot be moved. */
      readonly otherwise?: Removal;
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

/** Reads what the rules ask about an entry, and then decides. */
export const findDueAction = async (metadata: Metadata, rules: Rules, age: AgeRow): Promise<Found> =>
  decideAction(rules, await readSubject(metadata, rules, age));

// What an entry is about, as the metadata has it now. All reads are here.

type Subject =
  | { readonly is: 'upload'; readonly upload: StoredSession }
  | { readonly is: 'current' | 'restored'; readonly version: Stored<ObjectRow> }
  | ({ readonly is: 'noncurrent'; readonly version: Stored<ObjectRow> } & Place)
  | { readonly is: 'marker'; readonly version: Stored<ObjectRow>; readonly hidesVersions: boolean }
  /** The version has left the state of the entry; the entry of its present state exists too. */
  | { readonly is: 'in another state' }
  | { readonly is: 'gone' };

async function readSubject(metadata: Metadata, rules: Rules, age: AgeRow): Promise<Subject> {
  if (age.kind === 'upload') {
    const upload = await findSession(metadata, age.version);
    return upload === undefined ? { is: 'gone' } : { is: 'upload', upload };
  }
  const version = await findById(metadata, rules, age);
  if (version === undefined) return { is: 'gone' };
  if (age.kind === 'restored') return { is: 'restored', version };
  const { row } = version;
  const state = row.slot !== headSlot ? 'noncurrent' : row.marker ? 'marker' : 'current';
  if (state !== age.kind) return { is: 'in another state' };
  if (state === 'current') return { is: state, version };
  if (state === 'noncurrent') return { is: state, version, ...(await findPlace(metadata, rules, row)) };
  const hidden = await newestInHistory(metadata, rules.bucket, row.key);
  return { is: state, version, hidesVersions: hidden !== undefined };
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

interface Place {
  /** The noncurrent versions that are newer, as far as rules count them. */
  readonly newer: readonly Pick<Stored<Pick<ObjectRow, 'version'>>, 'row' | 'revision'>[];
  /** When the version became noncurrent. */
  readonly since: number;
}

/** More versions than a rule can keep (public API). */
const newerMax = 101;

async function findPlace(
  metadata: Metadata,
  { bucket, lifecycle }: Rules,
  { key, version, noncurrentSince }: ObjectRow,
): Promise<Place> {
  const isCounted = lifecycle.Rule.some(
    ({ NoncurrentVersionExpiration: expiration, NoncurrentVersionTransition: moves }) =>
      [expiration, ...moves].some((each) => each?.NewerNoncurrentVersions !== undefined),
  );
  if (!isCounted && noncurrentSince !== undefined) return { newer: [], since: noncurrentSince };
  const rows = await metadata
    .scan(objectsAt(bucket), {
      after: markerHeadAt(key),
      before: { space: historySpace, key: behind(key) },
      columns: ['version', 'modified'],
    })
    .next(newerMax);
  const at = rows.findIndex(({ row }) => row.version === version);
  const newer = at < 0 ? rows : rows.slice(0, at);
  if (noncurrentSince !== undefined) return { newer, since: noncurrentSince };
  const next = newer.length > 0 ? newer.at(-1)?.row : (await findHead(metadata, bucket, key))?.row;
  return { newer, since: next?.modified ?? Number.MAX_SAFE_INTEGER };
}

// The decision. Pure functions.

const nothing = { do: 'nothing' } as const;
const stale = { do: 'stale' } as const;

function decideAction(rules: Rules, subject: Subject): Found {
  switch (subject.is) {
    case 'gone':
      return stale;
    case 'in another state':
      return nothing;
    case 'upload':
      return decideAbort(rules, subject.upload);
    case 'current':
      return decideCurrent(rules, subject.version);
    case 'noncurrent':
      return decideNoncurrent(rules, subject.version, subject);
    case 'marker':
      return subject.hidesVersions ? nothing : decideMarker(rules, subject.version);
    case 'restored':
      return decideRestored(rules, subject.version);
  }
}

function decideAbort({ lifecycle, now }: Rules, upload: StoredSession): Found {
  const { key, initiated, state } = upload.row.session;
  if (state === 'aborted' || state === 'completed') return stale;
  if (state !== 'uploading') return nothing;
  const due = findAbort(lifecycle, { key, initiated });
  return due === undefined || due.at > now ? nothing : { do: 'abort', rule: due.rule, upload };
}

function decideCurrent({ bucket, lifecycle, now }: Rules, version: Stored<ObjectRow>): Found {
  const { key, size, modified, storageClass, headers, isNull } = version.row;
  const isRetained = bucket.versioning === 'Enabled' || (bucket.versioning === 'Suspended' && !isNull);
  const facts = { key, size, modified, storageClass, tags: headers.tags, isRetained };
  const action = actionOnCurrent(lifecycle, facts, now);
  if (action === undefined) return nothing;
  if (action.do === 'expire') return { ...action, version };
  const { otherwise, ...transition } = action;
  return { ...transition, version, ...(otherwise && { otherwise: { ...otherwise, version } }) };
}

function decideNoncurrent(
  { lifecycle, now }: Rules,
  version: Stored<ObjectRow>,
  { newer, since }: Place,
): Found {
  const { key, size, modified, storageClass, headers, marker } = version.row;
  const facts = { key, size, modified, storageClass, tags: headers.tags, since };
  const decide = (count: number) => actionOnNoncurrent(lifecycle, { ...facts, newer: count }, now);
  const action = decide(newer.length);
  if (action === undefined) return nothing;
  // The decision changes only where the count reaches the limit of a rule.
  const counts = [...new Set([0, ...limitsOfNewer(lifecycle)])]
    .filter((count) => count < newer.length)
    .sort((a, b) => a - b);
  const needed = counts.find((count) => isSameAction(decide(count), action)) ?? newer.length;
  const restsOn = newer
    .slice(0, Math.min(needed, checksMax))
    .map(({ row, revision }) => ({ check: historyAt(key, row.version), expect: revision }));
  if (action.do === 'expire') return { do: 'remove-noncurrent', rule: action.rule, version, restsOn };
  return marker ? nothing : { ...action, version, restsOn };
}

/** Checks that fit into a commit beside its other changes. A rule that keeps more versions is not checked for those beyond them. */
const checksMax = 48;

/** How many newer noncurrent versions each rule keeps. */
const limitsOfNewer = ({ Rule: rules }: Rules['lifecycle']): readonly number[] =>
  rules.flatMap(({ NoncurrentVersionExpiration: expiration, NoncurrentVersionTransition: moves }) =>
    [expiration, ...moves].map((each) => each?.NewerNoncurrentVersions ?? 0),
  );

const isSameAction = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

/** Of a delete marker without a version behind it. */
function decideMarker({ lifecycle, now }: Rules, version: Stored<ObjectRow>): Found {
  const { key, modified } = version.row;
  const due = findMarkerRemoval(lifecycle, { key, modified });
  return due === undefined || due.at > now ? nothing : { do: 'remove-marker', rule: due.rule, version };
}

function decideRestored({ now }: Rules, version: Stored<ObjectRow>): Found {
  const { restore } = version.row;
  return restore === undefined || restore.expires > now ? nothing : { do: 'end-restore', rule: '', version };
}

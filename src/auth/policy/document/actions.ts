/** The Action element: patterns of action names, and the actions of S3 with their levels. */

import { parseTemplate } from '../conditions/variables.ts';
import { compileGlob, type Glob, matchGlob } from '../patterns.ts';
import { malformed, quoted } from './malformed.ts';

export type ActionLevel = 'service' | 'bucket' | 'object';

/** The actions that bucket policies may contain (without the `s3:`), including those of unsupported features, for shared policies. */
const names: Readonly<Record<ActionLevel, string>> = {
  service: `CreateAccessPoint CreateJob GetAccessPoint ListAccessPoints ListAllMyBuckets
    ListAuditRecords ListJobs ListNotifyDeadLetters`,
  bucket: `CreateBucket DeleteBucket DeleteBucketOwnershipControls DeleteBucketPolicy DeleteBucketWebsite
    DeleteAccessPoint DeleteAccessPointPolicy GetAccelerateConfiguration GetAccessPointPolicy
    GetAccessPointPolicyStatus GetAnalyticsConfiguration GetBucketAbac GetBucketAcl GetBucketCORS GetBucketLocation
    GetBucketLogging GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls
    GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock GetBucketRequestPayment GetBucketTagging
    GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration GetIntelligentTieringConfiguration
    GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration GetReplicationConfiguration
    ListBucket ListBucketMultipartUploads ListBucketVersions ListTagsForResource TagResource UntagResource
    PutAccelerateConfiguration PutAccessPointPolicy PutAnalyticsConfiguration PutBucketAbac PutBucketAcl
    PutBucketCORS PutBucketLogging PutBucketNotification PutBucketObjectLockConfiguration
    PutBucketOwnershipControls PutBucketPolicy PutBucketPublicAccessBlock PutBucketRequestPayment PutBucketTagging
    PutBucketVersioning PutBucketWebsite PutEncryptionConfiguration PutIntelligentTieringConfiguration
    PutInventoryConfiguration PutLifecycleConfiguration PutMetricsConfiguration PutReplicationConfiguration`,
  object: `AbortMultipartUpload BypassGovernanceRetention DeleteObject DeleteObjectTagging DeleteObjectVersion
    DeleteObjectVersionTagging GetObject GetObjectAcl GetObjectAttributes GetObjectLegalHold GetObjectRetention
    GetObjectTagging GetObjectTorrent GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes
    GetObjectVersionForReplication GetObjectVersionTagging GetObjectVersionTorrent InitiateReplication
    ListMultipartUploadParts ObjectOwnerOverrideToBucketOwner PutObject PutObjectAcl PutObjectLegalHold
    PutObjectRetention PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging ReplicateDelete
    ReplicateObject ReplicateTags RestoreObject UpdateObjectEncryption`,
};
const isLevel = (name: string): name is ActionLevel => name in names;

export const storageActions: ReadonlyMap<string, ActionLevel> = new Map(
  Object.entries(names).flatMap(([level, list]) =>
    isLevel(level) ? list.split(/\s+/).map((name) => [`s3:${name.toLowerCase()}`, level] as const) : [],
  ),
);

export interface Actions {
  /** Whether the action, given in lower case, is one of these. */
  match(action: string): boolean;
}

const actionPattern = /^(?:\*|[a-z0-9-]+:[a-z0-9*?]+)$/;
const actionMax = 256;

export interface ActionRules {
  readonly at: string;
  /** The only service whose actions this kind of policy may name; undefined allows every service. */
  readonly service: 's3' | 'sts' | undefined;
}

interface Compiled {
  readonly given: string;
  readonly glob: Glob;
  readonly levels: ReadonlySet<ActionLevel>;
}

function compileAction(given: string, { at, service }: ActionRules): Compiled {
  const lower = given.toLowerCase();
  if (given.length > actionMax || !actionPattern.test(lower))
    throw malformed(at, `${quoted(given)} is not an action such as s3:GetObject, or "*"`);
  const glob = compileGlob(
    parseTemplate(lower, { at, variables: false, wildcards: true }).filter(
      (token) => token.is !== 'variable',
    ),
  );
  const levels = matchLevels(lower, glob);
  const isOther = service !== undefined && lower !== '*' && !lower.startsWith(`${service}:`);
  const isUnknown = service === 's3' && levels.size === 0;
  if (isOther || isUnknown) throw malformed(at, `${quoted(given)} is not an action of this kind of policy`);
  return { given, glob, levels };
}

/** The levels of the matching actions: service, bucket or object. */
function matchLevels(lower: string, glob: Glob): ReadonlySet<ActionLevel> {
  const exact = storageActions.get(lower);
  if (exact !== undefined) return new Set([exact]);
  const levels = new Set<ActionLevel>();
  if (glob.runs.length === 1 && !lower.includes('?')) return levels;
  for (const [name, level] of storageActions) if (matchGlob(glob, name)) levels.add(level);
  return levels;
}

/**
 * Results are cached by action, because actions come from the operation table. The bound is for policy simulation, where callers may
 * ask about any name.
 */
const rememberedMax = 64;

/** @throws MalformedPolicy */
export function compileActions(
  list: readonly string[],
  rules: ActionRules,
): Actions & {
  readonly each: readonly { readonly given: string; readonly levels: ReadonlySet<ActionLevel> }[];
} {
  const compiled = list.map((given) => compileAction(given, rules));
  const remembered = new Map<string, boolean>();
  return {
    each: compiled,
    match: (action) => {
      const known = remembered.get(action);
      if (known !== undefined) return known;
      const answer = compiled.some(({ glob }) => matchGlob(glob, action));
      if (remembered.size < rememberedMax) remembered.set(action, answer);
      return answer;
    },
  };
}

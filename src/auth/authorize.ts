/**
 * Authorization: collects the inputs of the policy engine: the caller and its policies, the bucket's policy, ACL, ownership and
 * public access block, the object's owner and ACL, and the facts of the request.
 */
import type { Caches } from '../base/bounded-cache.ts';
import { fail, Refusal } from '../base/errors.ts';
import { readOwnership } from '../domain/access/object-ownership.ts';
import { readDocument } from '../domain/configurations/documents.ts';
import {
  bucketAcl,
  ownershipControls,
  publicAccessBlock,
  requestPayment,
} from '../domain/configurations/families.ts';
import type { AccessPointRow } from '../metadata/records/access-points.ts';
import type { BucketRow, Grant } from '../metadata/tables.ts';
import type { Clock } from '../ports/clock.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import { accessPointResource, accessPointSide, bucketPolicy } from './bucket-policy.ts';
import { type About, type Asking, collectFacts } from './facts.ts';
import type { Identity } from './identity.ts';
import { readPolicies, type TurnClock, withPolicy } from './identity-policies.ts';
import {
  type AccessPointSide,
  type BucketSide,
  type DenyingSide,
  decide,
  decideTrust,
  type Reason,
  type Verdict,
} from './policy/decision.ts';
import { parsePolicy } from './policy/document.ts';
import { evaluate, type Policy, type Trace } from './policy/evaluate.ts';
import type { Facts, Principal } from './policy/request.ts';
import { principalOf, provenAt, unprovenText } from './principal.ts';

export interface Caller extends Asking {
  readonly identity: Identity;
}

export interface Question extends About {
  /** Such as `s3:GetObject`. */
  readonly action: string;
  /** '' for the bucket itself. */
  readonly key: string;
  /** The name, also of a bucket that is about to be created; '' at service scope. */
  readonly bucketName: string;
  /**
   * The account of the writer that will own the object. The ACL of the request is judged as that account's: a caller that may write
   * may also set the object's ACL (public API).
   */
  readonly writer?: string | undefined;
  /**
   * An anonymous writer names a canned ACL for its new object. A grant of WRITE in the bucket's ACL also allows that
   * (public API).
   */
  readonly isWritersAcl?: boolean;
  /** Decides as if this were the bucket's policy. */
  readonly policy?: Policy | undefined;
  /** Decides as if the caller had this policy: in place of those of its name, or beside them all where it has none of that name. */
  readonly callersPolicy?: Policy | undefined;
  /** The access point that the request came through. */
  readonly accessPoint?: AccessPointRow | undefined;
  /** The ARN, where it is neither a bucket's nor an object's. */
  readonly resource?: string;
}

export interface AuthorizationContext {
  readonly caches: Caches;
  readonly metadata: MetadataStore;
  readonly clock: Pick<Clock, 'now'> & TurnClock;
  readonly config: { readonly SVC_REGION: string };
}

/**
 * @returns why the caller may do it
 * @throws AccessDenied
 */
export async function authorize(
  ctx: AuthorizationContext,
  asking: Caller,
  question: Question,
): Promise<Reason> {
  const caller = provenAt(asking, question);
  if (isRootAtHome(caller, question)) return 'root';
  const verdict = await verdictOn(ctx, caller, question);
  if (verdict.allowed) return verdict.reason;
  if (asking.identity !== undefined && caller.identity === undefined)
    throw fail('AccessDenied', unprovenText(asking.identity));
  throw fail('AccessDenied', (await reasonFor(ctx, caller, { ...question, verdict })) ?? {});
}

/** For an action that another, allowed action implies. @throws AccessDenied where a policy denies it explicitly */
export async function assertNotDenied(
  ctx: AuthorizationContext,
  caller: Caller,
  question: Question,
): Promise<void> {
  if (isRootAtHome(caller, question)) return;
  const verdict = await verdictOn(ctx, caller, question);
  if (verdict.reason !== 'explicit-deny') return;
  throw fail('AccessDenied', (await reasonFor(ctx, caller, { ...question, verdict })) ?? {});
}

/** The text that the caller may know: the plain one is for anonymous callers and other accounts (public API). */
async function reasonFor(
  ctx: AuthorizationContext,
  caller: Caller,
  { verdict, ...question }: Question & { readonly verdict: Verdict },
): Promise<string | undefined> {
  const { identity, accessPoint } = caller;
  const { bucket, target, action } = question;
  if (identity === undefined || (bucket !== undefined && bucket.owner !== identity.owner)) return undefined;
  if (accessPoint !== undefined && accessPoint.account !== identity.owner) return undefined;
  const formatDenial = (asked: Question, found: Verdict): string => {
    const resource = `"${asked.resource ?? resourceArn({ ...asked, accessPoint })}"`;
    return denialText({ principal: principalOf(identity), action: asked.action, resource, verdict: found });
  };
  if (target === undefined) return formatDenial(question, verdict);
  // A caller that may not list gets the same text as if the object were absent.
  const listing = asListing(question);
  const mayList = await verdictOn(ctx, caller, listing);
  if (mayList.allowed) return formatDenial(question, verdict);
  const unseen = await verdictOn(ctx, caller, { ...question, action, target: undefined });
  return unseen.allowed ? formatDenial(listing, mayList) : formatDenial(question, unseen);
}

export async function isAllowed(
  ctx: AuthorizationContext,
  asking: Caller,
  question: Question,
): Promise<boolean> {
  const caller = provenAt(asking, question);
  return isRootAtHome(caller, question) || (await verdictOn(ctx, caller, question)).allowed;
}

/** The question whether the caller may list the key of another question, so that conditions on `s3:prefix` are about that key. */
const asListing = (question: Omit<Question, 'action'>): Question => ({
  ...question,
  action: 's3:ListBucket',
  key: '',
  target: undefined,
  named: new Map([...(question.named ?? []), ['s3:prefix', question.key]]),
});

/**
 * Whether the caller may learn that an object is missing, although nothing lets it read the object. A missing object has no ACL, so
 * the right to list decides (public API). False when reading is allowed or explicitly denied.
 */
export async function mayKnowAbsence(
  ctx: AuthorizationContext,
  asking: Caller,
  question: Question,
): Promise<boolean> {
  const caller = provenAt(asking, question);
  if (isRootAtHome(caller, question)) return false;
  const { allowed, reason } = await verdictOn(ctx, caller, question);
  if (allowed || (reason !== 'nothing-allows' && reason !== 'other-account')) return false;
  return isAllowed(ctx, caller, asListing(question));
}

export async function verdictOn(
  ctx: AuthorizationContext,
  asking: Caller,
  question: Question,
): Promise<Verdict> {
  const caller = provenAt(asking, question);
  const verdict = await verdictOnProven(ctx, caller, question);
  const claimed = caller.identity?.signedFor?.claimed;
  if (claimed === undefined || !verdict.allowed) return verdict;
  return verdictOnProven(ctx, { ...caller, identity: claimed }, question);
}

async function verdictOnProven(
  ctx: AuthorizationContext,
  caller: Caller,
  question: Question,
): Promise<Verdict> {
  const { identity, accessPoint } = caller;
  const facts = collectFacts(caller, question, {
    now: ctx.clock.now(),
    region: ctx.config.SVC_REGION,
    account: question.bucketName === '' ? undefined : identity?.owner,
  });
  return evaluatePolicies(ctx, identity, { ...question, accessPoint }, { facts });
}

/** @throws AccessDenied for a caller that may not list the bucket and so must not learn whether a key exists */
export async function assertMayKnow(
  ctx: AuthorizationContext,
  caller: Caller,
  about: Omit<Question, 'action'>,
): Promise<void> {
  await authorize(ctx, caller, asListing(about));
}

/** The verdict with its reason; fills `trace`, if given, with the result of every statement. */
export async function evaluatePolicies(
  ctx: AuthorizationContext,
  identity: Identity,
  question: Question,
  { facts, trace }: { readonly facts: Facts; readonly trace?: Trace },
): Promise<Verdict> {
  const { action, bucket, key, accessPoint } = question;
  const prefix = facts.lookup('s3:prefix');
  const stored = await readPolicies(ctx, identity, {
    action,
    bucketName: question.bucketName,
    key,
    prefix: typeof prefix === 'string' ? prefix : undefined,
  });
  const brought = question.callersPolicy === undefined ? stored : withPolicy(stored, question.callersPolicy);
  const side = bucket === undefined ? undefined : await bucketSide(ctx, bucket, question);
  const principal = principalOf(identity);
  const resource = question.resource ?? formatResource(question);
  const request = { principal, action, resource, context: facts };
  if (accessPoint === undefined) return decide({ request, ...brought, bucket: side }, trace);
  const way = accessPointSide(ctx.caches, accessPoint, key);
  if (side === undefined) return decide({ request, ...brought, bucket: side, accessPoint: way }, trace);
  const publicAccess = blockOfBoth(side, way);
  const both = { bucket: { ...side, publicAccess }, accessPoint: { ...way, publicAccess } };
  return decide({ request, ...brought, ...both }, trace);
}

/** A setting of either block applies to a request through the access point (public API). */
const blockOfBoth = (side: BucketSide, way: AccessPointSide): NonNullable<BucketSide['publicAccess']> => ({
  ignorePublicAcls:
    side.publicAccess?.ignorePublicAcls === true || way.publicAccess?.ignorePublicAcls === true,
  restrictPublicBuckets:
    side.publicAccess?.restrictPublicBuckets === true || way.publicAccess?.restrictPublicBuckets === true,
});

/** The fast path of most requests: the caller is the root of the account that owns the bucket and the object, and no policy can deny it. */
const isRootAtHome = ({ identity, accessPoint }: Caller, { bucket, target, policy }: Question): boolean =>
  accessPoint === undefined &&
  identity?.root === true &&
  identity.session?.inline === undefined &&
  bucket !== undefined &&
  bucket.owner === identity.owner &&
  bucket.documents[bucketPolicy.name] === undefined &&
  policy === undefined &&
  (target === undefined || target.owner === identity.owner);

/** The resource as the caller named it: through the access point, if the request came through one. */
export const resourceArn = (
  asked: Parameters<typeof formatResource>[0] & Pick<Question, 'accessPoint'>,
): string =>
  asked.accessPoint === undefined ? formatResource(asked) : accessPointResource(asked.accessPoint, asked.key);

const formatResource = ({
  action,
  bucketName,
  key,
}: Pick<Question, 'action' | 'bucketName' | 'key'>): string => {
  // Policies that allow ListBuckets use either of these texts for all buckets (public API).
  if (bucketName === '') return action.startsWith('s3:') ? 'arn:aws:s3:::*' : '*';
  return key === '' ? `arn:aws:s3:::${bucketName}` : `arn:aws:s3:::${bucketName}/${key}`;
};

/** The bucket's grants of WRITE and FULL_CONTROL, as grants of WRITE_ACP on the new object. */
const listWriters = (acl: readonly Grant[]): readonly Grant[] =>
  acl
    .filter(({ permission }) => permission === 'WRITE' || permission === 'FULL_CONTROL')
    .map((grant) => ({ ...grant, permission: 'WRITE_ACP' }));

/** The bucket as the policy engine sees it. */
export async function bucketSide(
  ctx: AuthorizationContext,
  bucket: BucketRow,
  {
    target,
    writer,
    isWritersAcl,
    policy: supposed,
  }: Pick<Question, 'target' | 'writer' | 'isWritersAcl' | 'policy'>,
): Promise<BucketSide> {
  // Configurations that the bucket does not have need no read.
  const { documents } = bucket;
  const isSet = ({ name }: { readonly name: string }): boolean => documents[name] !== undefined;
  const policy =
    supposed ?? (isSet(bucketPolicy) ? await readDocument(ctx, bucket, bucketPolicy) : undefined);
  const acl = isSet(bucketAcl) ? await readDocument(ctx, bucket, bucketAcl) : undefined;
  const ownership = isSet(ownershipControls) ? await readOwnership(ctx, bucket) : 'ObjectWriter';
  const block = isSet(publicAccessBlock) ? await readDocument(ctx, bucket, publicAccessBlock) : undefined;
  return {
    owner: bucket.owner,
    policy,
    acls: { bucket: acl ?? [], object: isWritersAcl ? listWriters(acl ?? []) : target?.acl },
    ownership: writer === undefined ? ownership : 'ObjectWriter',
    objectOwner: writer ?? target?.owner,
    publicAccess: block && {
      ignorePublicAcls: block.IgnorePublicAcls === true,
      restrictPublicBuckets: block.RestrictPublicBuckets === true,
    },
  };
}

// Requester Pays buckets (public API "Requester Pays buckets"): a request from another account must state that it accepts the charge.
// This service sends no bills; billing from its logs can rely on that header.

type Ctx = { readonly caches: Caches; readonly metadata: MetadataStore };
type Payer = Pick<Caller, 'identity' | 'own'>;

/** Whether `isCharged` has anything to decide. */
export const mayCharge = ({ documents }: BucketRow): boolean => requestPayment.name in documents;

/**
 * Whether the request is charged to its caller's account.
 * @throws AccessDenied for a request of another account that does not accept the charge, or is anonymous
 */
export async function isCharged(ctx: Ctx, caller: Payer, bucket: BucketRow): Promise<boolean> {
  const { identity } = provenAt(caller, { bucket, bucketName: bucket.name });
  const payment = await readDocument(ctx, bucket, requestPayment);
  if (payment?.Payer !== 'Requester' || identity?.owner === bucket.owner) return false;
  if (identity === undefined || caller.own.get('request-payer') !== 'requester')
    throw fail('AccessDenied', 'The requester pays for requests to this bucket, and must say so.');
  return true;
}

// The text of an AccessDenied that names the caller, the action, the resource and the kind of policy that decided
// (public API "Troubleshoot access denied errors").

const denying: Readonly<Record<DenyingSide, string>> = {
  identity: 'an identity-based policy',
  session: 'a session policy',
  boundary: 'a permissions boundary',
  bucket: 'a resource-based policy',
  accessPoint: 'an access point policy',
  trust: 'a role trust policy',
};

/** The kind of policy that has no Allow; identity-based policies where no other reason is given. */
const missing: Partial<Readonly<Record<Denial['verdict']['reason'], string>>> = {
  'session-policy': 'session policy',
  'permissions-boundary': 'permissions boundary',
  'access-point': 'access point policy',
  'other-account': 'resource-based policy',
  'not-trusted': 'role trust policy',
};

/** The action and resource of the request. */
interface Asked {
  readonly principal: Principal;
  readonly action: string;
  /** As shown in the text: S3 puts it in quotation marks, IAM and KMS do not. */
  readonly resource: string;
}

export interface Denial extends Asked {
  readonly verdict: Pick<Verdict, 'denied'> & { readonly reason: Reason | 'not-trusted' };
}

const refusalText = ({ principal, action, resource }: Asked, because: string): string =>
  `User: ${principal.sessionArn ?? principal.arn} is not authorized to perform: ${action} on resource: ${resource} ${because}`;

export function denialText({ verdict, ...asked }: Denial): string {
  const { reason, denied } = verdict;
  const because =
    denied === undefined
      ? `because no ${missing[reason] ?? 'identity-based policy'} allows the ${asked.action} action`
      : `with an explicit deny in ${denying[denied]}`;
  return refusalText(asked, because);
}

const blocked = {
  BlockPublicAcls: 'public access control lists (ACLs)',
  BlockPublicPolicy: 'public policies',
} as const;

export const blockText = (asked: Asked, setting: keyof typeof blocked): string =>
  refusalText(asked, `because ${blocked[setting]} are blocked by the ${setting} block public access setting`);

/** For callers that no policy can make an operator. */
export const operatorText = (asked: Asked): string =>
  refusalText(asked, 'because the access key is not configured as an operator');

/** For operations that every account may use on its own resources. The text does not say whether another account's resource exists. */
export const tenantText = (asked: Asked): string =>
  refusalText(asked, 'because a caller that is not an operator may name only resources of its own account');

// Refusals with details that only callers of the account of the resource get.

interface Refused {
  readonly identity: Identity;
  /** The account of the bucket or access point that has the block. */
  readonly owner: string | undefined;
  readonly action: string;
  readonly resource: string;
}

/** @returns the refusal with its details, or the same cause */
export function explainRefusal(cause: unknown, { identity, owner, action, resource }: Refused): unknown {
  if (!(cause instanceof Refusal) || identity === undefined) return cause;
  const { blockedBy, forAccount, ...details } = cause.details;
  if (forAccount !== undefined && (forAccount.account === identity.owner || identity.operator))
    return fail(cause.code, {
      ...details,
      message: forAccount.message,
      elements: { ...details.elements, ...forAccount.elements },
    });
  // The setting of a public access block.
  if (blockedBy === undefined || identity.owner !== owner) return cause;
  const asked = { principal: principalOf(identity), action, resource };
  return fail(cause.code, { ...cause.details, message: blockText(asked, blockedBy) });
}

// Authorizes AssumeRole: whether the caller may assume a role with the given session tags.

export interface Assumption {
  /** The account of the role. */
  readonly account: string;
  readonly arn: string;
  /** The parameters as condition keys. */
  readonly named: NonNullable<About['named']>;
  /** Session tags change the result of policies, so sending them requires a permission. */
  readonly hasTags: boolean;
  /** Undefined when there is no such role. */
  readonly role: TrustingRole | undefined;
}

interface TrustingRole {
  /** The trust policy, as it was sent. */
  readonly trust: string;
  /** Its tags, under the names of condition keys. */
  readonly tags: NonNullable<About['named']>;
}

/**
 * @throws AccessDenied. The text is the same for a missing role and for one that does not trust the caller, so that only trusted
 * callers learn whether the role exists. The text names the result of the caller's own policies.
 */
export async function assertMayAssume(
  ctx: AuthorizationContext,
  caller: Caller,
  { account, arn, named, hasTags, role }: Assumption,
): Promise<void> {
  const brought = await readPolicies(ctx, caller.identity);
  const trust = role && {
    name: 'trust policy',
    document: parsePolicy(role.trust, { kind: 'trust', isStored: true }),
  };
  const principal = principalOf(caller.identity);
  const circumstances = { now: ctx.clock.now(), region: ctx.config.SVC_REGION, account };
  const assumptionQuestion = (action: string, facts: Assumption['named']) => ({
    principal,
    action,
    resource: arn,
    context: collectFacts(caller, { named: facts }, circumstances),
  });
  const verdictOn = (action: string): Denial['verdict'] | undefined => {
    const request = assumptionQuestion(action, new Map([...(role?.tags ?? []), ...named]));
    const toOwner = { ...request, resourceAccount: account };
    if (trust !== undefined && evaluate(toOwner, [trust]).effect === 'Allow') {
      const verdict = decideTrust({ request, ...brought, trust, account });
      return verdict.allowed ? undefined : verdict;
    }
    // Without the tags of the role, which the caller may not know.
    const own = decide({ request: assumptionQuestion(action, named), ...brought });
    return own.allowed ? { reason: 'not-trusted' } : own;
  };
  for (const action of ['sts:AssumeRole', ...(hasTags ? ['sts:TagSession'] : [])]) {
    const verdict = verdictOn(action);
    if (verdict !== undefined)
      throw fail('AccessDenied', denialText({ principal, action, resource: arn, verdict }));
  }
}

/** One statement of a policy: parsed, checked and compiled once, so that evaluating it costs comparisons only. */
import { type Condition, type ConditionPlace, compileCondition } from './conditions.ts';
import { type Json, type JsonObject, malformed, quoted } from './json.ts';
import { compileArnPattern } from './operators.ts';
import { compileGlob, type Glob, matchGlob, splitArn } from './patterns.ts';
import type { PolicyRequest, Principal } from './request.ts';
import { parseTemplate } from './variables.ts';

/** What the kind of policy requires of its statements. */
export interface StatementRules {
  readonly hasPrincipal: boolean;
  readonly hasResource: boolean;
  readonly mayNotPrincipal: boolean;
  readonly service: 's3' | 'sts' | undefined;
  /** Any text, or letters and digits only. */
  readonly freeSid: boolean;
  readonly variables: boolean;
  readonly bucket: string | undefined;
  readonly accessPoint: string | undefined;
}

export interface Statement {
  /** From 0. */
  readonly index: number;
  readonly sid: string | undefined;
  readonly effect: 'Allow' | 'Deny';
  /** Undefined in policies of an identity, which apply to the identity that they are attached to. */
  readonly principals: Principals | undefined;
  /** Accounts that Principal or NotPrincipal names by their id alone. */
  readonly bareNames: readonly string[];
  readonly conditions: readonly Condition[];
  /** @param action in lower case */
  matchesAction(action: string): boolean;
  matchesResource(request: PolicyRequest): boolean;
  reach(request: Pick<PolicyRequest, 'principal' | 'resourceAccount'>): Reach | undefined;
}

const elements = new Set(
  'Sid Effect Principal NotPrincipal Action NotAction Resource NotResource Condition'.split(' '),
);
const sidMax = 256;

const isObject = (value: Json | undefined): value is JsonObject => value instanceof Map;

/** A string, or a list of at least one. */
function readStrings(value: Json, at: string): readonly string[] {
  const list: readonly Json[] = Array.isArray(value) ? value : [value as Json];
  if (list.length === 0) throw malformed(at, 'must not be empty');
  return list.map((each) => {
    if (typeof each !== 'string') throw malformed(at, 'must be a string or a list of strings');
    return each;
  });
}

/** Values of conditions may also be numbers and booleans, which are read as their text. */
function readValues(value: Json, at: string): readonly string[] {
  const list: readonly Json[] = Array.isArray(value) ? value : [value as Json];
  if (list.length === 0) throw malformed(at, 'must not be empty');
  return list.map((each) => {
    if (typeof each !== 'string' && typeof each !== 'number' && typeof each !== 'boolean')
      throw malformed(at, 'must be a string, a number, a boolean or a list of them');
    return String(each);
  });
}

/** Reads whichever of the two elements is present. */
function readChoice(
  statement: JsonObject,
  name: string,
  { at, required, mayNot }: { readonly at: string; readonly required: boolean; readonly mayNot: boolean },
): { readonly value: Json; readonly at: string; readonly negated: boolean } | undefined {
  const plain = statement.get(name);
  const not = statement.get(`Not${name}`);
  if (plain !== undefined && not !== undefined) throw malformed(at, `has both ${name} and Not${name}`);
  const value = plain ?? not;
  const negated = not !== undefined;
  if (value === undefined) {
    if (required) throw malformed(at, `needs ${name}${mayNot ? ` or Not${name}` : ''}`);
    return undefined;
  }
  const place = `${at}.${negated ? 'Not' : ''}${name}`;
  if (!required || (negated && !mayNot)) throw malformed(place, 'has no place in this kind of policy');
  return { value, at: place, negated };
}

function readSid(value: Json | undefined, at: string, free: boolean): string | undefined {
  if (value === undefined) return undefined;
  const isFine =
    typeof value === 'string' && value.length <= sidMax && (free || /^[A-Za-z0-9]*$/.test(value));
  if (!isFine)
    throw malformed(
      `${at}.Sid`,
      free ? `must be text of at most ${sidMax} characters` : 'must be letters and digits',
    );
  return value === '' ? undefined : value;
}

function readConditions(value: Json | undefined, { at, ...place }: ConditionPlace): readonly Condition[] {
  if (value === undefined) return [];
  if (!isObject(value)) throw malformed(at, 'must be an object of operators');
  return [...value].flatMap(([operator, block]) => {
    const within = `${at}.${operator}`;
    if (!isObject(block)) throw malformed(within, 'must be an object of condition keys');
    if (block.size === 0) throw malformed(within, 'names no condition key');
    const seen = new Set<string>();
    return [...block].map(([key, values]) => {
      if (seen.has(key.toLowerCase())) throw malformed(within, `has ${quoted(key)} more than once`);
      seen.add(key.toLowerCase());
      const listed = readValues(values, `${within}.${key}`);
      return compileCondition({ operator, key, values: listed }, { ...place, at: within });
    });
  });
}

type Chosen<T> = (T & { readonly negated: boolean }) | undefined;

function readPrincipals(
  statement: JsonObject,
  at: string,
  rules: StatementRules,
): Chosen<{ readonly of: Principals }> {
  const { hasPrincipal: required, mayNotPrincipal: mayNot } = rules;
  const found = readChoice(statement, 'Principal', { at, required, mayNot });
  if (found === undefined) return undefined;
  // NotPrincipal in an Allow includes anonymous callers; AWS refuses it too.
  if (found.negated && statement.get('Effect') === 'Allow')
    throw malformed(found.at, 'must stand in a statement that denies');
  return { of: parsePrincipals(found.value, found.at), negated: found.negated };
}

function readActions(
  statement: JsonObject,
  at: string,
  { service }: StatementRules,
): Actions & { readonly negated: boolean; readonly each: ReturnType<typeof compileActions>['each'] } {
  const found = readChoice(statement, 'Action', { at, required: true, mayNot: true });
  if (found === undefined) throw malformed(at, 'needs Action or NotAction');
  const actions = compileActions(readStrings(found.value, found.at), { at: found.at, service });
  return { ...actions, negated: found.negated };
}

function readResources(
  statement: JsonObject,
  at: string,
  rules: StatementRules,
): Chosen<Resources & { readonly list: readonly string[] }> {
  const found = readChoice(statement, 'Resource', { at, required: rules.hasResource, mayNot: true });
  if (found === undefined) return undefined;
  const list = readStrings(found.value, found.at);
  const { variables, bucket, accessPoint } = rules;
  const compiled = compileResources(list, {
    at: found.at,
    variables,
    // NotResource may name resources outside of the bucket; it then excludes nothing.
    bucket: found.negated ? undefined : bucket,
    accessPoint: found.negated ? undefined : accessPoint,
  });
  return { ...compiled, list, negated: found.negated };
}

/** Bucket actions on object ARNs alone never match, though their author believes that they allow something. */
function checkApplies(
  actions: ReturnType<typeof readActions>,
  resources: ReturnType<typeof readResources>,
  at: string,
): void {
  if (actions.negated || resources === undefined || resources.negated) return;
  const levels = new Set(resources.list.flatMap(levelsOfResource));
  for (const { input, levels: ofAction } of actions.each)
    if (![...ofAction].some((level) => levels.has(level)))
      throw malformed(at, `${quoted(input)} does not apply to any of its resources`);
}

/** @throws MalformedPolicy */
export function compileStatement(value: Json, at: string, rules: StatementRules): Omit<Statement, 'index'> {
  if (!isObject(value)) throw malformed(at, 'must be an object');
  for (const name of value.keys())
    if (!elements.has(name)) throw malformed(at, `${quoted(name)} is no element of a statement`);
  const effect = value.get('Effect');
  if (effect !== 'Allow' && effect !== 'Deny') throw malformed(`${at}.Effect`, 'must be "Allow" or "Deny"');
  const sid = readSid(value.get('Sid'), at, rules.freeSid);
  const principals = readPrincipals(value, at, rules);
  const actions = readActions(value, at, rules);
  const resources = readResources(value, at, rules);
  if (rules.bucket !== undefined) checkApplies(actions, resources, at);
  const conditions = readConditions(value.get('Condition'), {
    at: `${at}.Condition`,
    variables: rules.variables,
    effect,
    anyService: rules.service === undefined,
  });
  return {
    sid,
    effect,
    bareNames: [...(principals?.of.bare ?? [])],
    principals: principals?.negated === true ? undefined : principals?.of,
    conditions,
    matchesAction: (action) => actions.match(action) !== actions.negated,
    matchesResource: (request) => {
      if (resources === undefined) return true;
      const answer = resources.match(request);
      // An unresolved variable matches nothing, and does not widen an Allow with NotResource.
      if (answer === 'unresolved') return resources.negated && effect === 'Deny';
      return answer !== resources.negated;
    },
    reach: ({ principal, resourceAccount }) => {
      if (principals === undefined) return 'direct';
      if (!principals.negated) return findReach(principals.of, principal, resourceAccount);
      return isExempt(principals.of, principal, resourceAccount) ? undefined : 'direct';
    },
  };
}

// The Action element: patterns of action names, and the actions of S3 with their levels.

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
  readonly input: string;
  readonly glob: Glob;
  readonly levels: ReadonlySet<ActionLevel>;
}

function compileAction(input: string, { at, service }: ActionRules): Compiled {
  const lower = input.toLowerCase();
  if (input.length > actionMax || !actionPattern.test(lower))
    throw malformed(at, `${quoted(input)} is not an action such as s3:GetObject, or "*"`);
  const glob = compileGlob(
    parseTemplate(lower, { at, variables: false, wildcards: true }).filter(
      (token) => token.is !== 'variable',
    ),
  );
  const levels = matchLevels(lower, glob);
  const isOther = service !== undefined && lower !== '*' && !lower.startsWith(`${service}:`);
  const isUnknown = service === 's3' && levels.size === 0;
  if (isOther || isUnknown) throw malformed(at, `${quoted(input)} is not an action of this kind of policy`);
  return { input, glob, levels };
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
  readonly each: readonly { readonly input: string; readonly levels: ReadonlySet<ActionLevel> }[];
} {
  const compiled = list.map((input) => compileAction(input, rules));
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

// The Resource element: ARN patterns, and the resources that a resource policy may name.

export interface Resources {
  /** A variable without a value names nothing: 'unresolved' when such a pattern might have matched. */
  match(request: PolicyRequest): boolean | 'unresolved';
}

export interface ResourceRules {
  readonly at: string;
  readonly variables: boolean;
  /** The bucket that a bucket policy is put on. */
  readonly bucket?: string | undefined;
  /** The ARN of the access point that a policy is put on. */
  readonly accessPoint?: string | undefined;
}

const resourceMax = 2048;
const everything = '*';

/** Whether the pattern can match the bucket or an object in it. One that cannot is refused, because no request would ever match it. */
function canName(input: string, bucket: string): boolean {
  if (input === everything) return true;
  const [, , service = '', , , rest = ''] = splitArn(input) ?? [];
  if (service !== 's3' && !/[*?]/.test(service)) return false;
  const [head = ''] = rest.split(/[*?$]/);
  const isExact = head.length === rest.length || head.includes('/');
  return isExact ? head.split('/')[0] === bucket : `${bucket}/`.startsWith(head);
}

function checkPlace(input: string, { at, bucket, accessPoint }: ResourceRules): void {
  if (input.length > resourceMax)
    throw malformed(at, `${quoted(input)} is longer than ${resourceMax} characters`);
  if (bucket !== undefined && !canName(input, bucket))
    throw malformed(at, `${quoted(input)} is not in the bucket ${bucket}`);
  if (accessPoint === undefined || input === everything) return;
  if (input !== accessPoint && !input.startsWith(`${accessPoint}/object/`))
    throw malformed(at, `${quoted(input)} is not of the access point ${accessPoint}`);
}

/** @throws MalformedPolicy */
export function compileResources(list: readonly string[], rules: ResourceRules): Resources {
  for (const input of list) checkPlace(input, rules);
  const patterns = list
    .filter((input) => input !== everything)
    .map((input) => compileArnPattern(input, { at: rules.at, variables: rules.variables }));
  if (patterns.length < list.length) return { match: () => true };
  return {
    match: (request) => {
      let unresolved = false;
      for (const matches of patterns) {
        const answer = matches(request.resource, request);
        if (answer === true) return true;
        if (answer === 'unresolved') unresolved = true;
      }
      return unresolved ? 'unresolved' : false;
    },
  };
}

/** The level of a bucket policy's resource: a pattern that ends without a slash may be both bucket and object. */
export function levelsOfResource(input: string): readonly ActionLevel[] {
  const rest = input === everything ? everything : (splitArn(input)?.[5] ?? everything);
  if (rest.includes('/')) return ['object'];
  return /[*$]/.test(rest) ? ['bucket', 'object'] : ['bucket'];
}

// The Principal element: the callers that a statement of a resource policy applies to.

export interface Principals {
  readonly everyone: boolean;
  /** Accounts, named by id, root ARN or canonical user id. */
  readonly accounts: ReadonlySet<string>;
  /** The accounts that are named by their id alone: an access key or a user's name looks the same. */
  readonly bare: ReadonlySet<string>;
  /** ARNs of users, roles, and sessions, also of the embedding application. */
  readonly arns: ReadonlySet<string>;
  /** What follows the account in `arn:aws:iam:::user/alice`: users and roles of the account that owns the resource. */
  readonly own: ReadonlySet<string>;
  readonly services: ReadonlySet<string>;
}

/**
 * How a statement reaches the caller: 'direct' names the caller or everyone; 'account' names the caller's account, which may then
 * allow its users by identity policies.
 */
export type Reach = 'direct' | 'account';

/** Account ids of this service (owner ids), and those of the public API (twelve digits). */
const accountPattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/;
/** Whether a text can be an account's id. */
export const isAccount = (text: string): boolean => accountPattern.test(text);

const namePattern = '[\\w+=,.@/-]{1,600}';
const rootArn = /^arn:aws[\w-]*:iam::([^:]+):root$/;
const namedArn = new RegExp(
  `^arn:aws[\\w-]*:(?:iam::([^:]+):(?:user|role|application)/${namePattern}|sts::([^:]+):(?:assumed-role|federated-user)/${namePattern})$`,
);
const ownArn = new RegExp(`^arn:aws[\\w-]*:iam:::((?:user|role|application)/${namePattern})$`);
const servicePattern = /^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?$/;

interface Found {
  readonly bare: Set<string>;
  readonly accounts: Set<string>;
  readonly arns: Set<string>;
  readonly own: Set<string>;
  readonly services: Set<string>;
}

function readAws(name: string, at: string, found: Found): void {
  const account = rootArn.exec(name)?.[1] ?? (name.includes(':') ? undefined : name);
  if (account !== undefined) {
    if (!accountPattern.test(account)) throw malformed(at, `${quoted(name)} is not an account`);
    found.accounts.add(account);
    if (account === name) found.bare.add(name);
    return;
  }
  const own = ownArn.exec(name)?.[1];
  if (own !== undefined) {
    found.own.add(own);
    return;
  }
  const match = namedArn.exec(name);
  if (!accountPattern.test(match?.[1] ?? match?.[2] ?? ''))
    throw malformed(at, `${quoted(name)} is not "*", an account or the ARN of a user, role or session`);
  found.arns.add(name);
}

const readers: ReadonlyMap<string, (name: string, at: string, found: Found) => void> = new Map([
  ['AWS', readAws],
  [
    'CanonicalUser',
    (name, at, { accounts }) => {
      if (!accountPattern.test(name)) throw malformed(at, `${quoted(name)} is not a canonical user id`);
      accounts.add(name);
    },
  ],
  [
    'Service',
    (name, at, { services }) => {
      if (!servicePattern.test(name)) throw malformed(at, `${quoted(name)} is not a service's host name`);
      services.add(name);
    },
  ],
]);

function readNames(value: Json, at: string): readonly string[] {
  const names = typeof value === 'string' ? [value] : value;
  if (!Array.isArray(names) || names.length === 0)
    throw malformed(at, 'must be a string or a list of strings');
  return names.map((name: unknown) => {
    if (typeof name !== 'string') throw malformed(at, 'must be a string or a list of strings');
    return name;
  });
}

/** @throws MalformedPolicy for a form that the engine does not know */
export function parsePrincipals(value: Json, at: string): Principals {
  const found = {
    accounts: new Set<string>(),
    bare: new Set<string>(),
    arns: new Set<string>(),
    own: new Set<string>(),
    services: new Set<string>(),
  };
  if (value === '*') return { everyone: true, ...found };
  if (!(value instanceof Map)) throw malformed(at, 'must be "*" or an object such as {"AWS": "*"}');
  const entries = value as ReadonlyMap<string, Json>;
  if (entries.size === 0) throw malformed(at, 'names no principal');
  let everyone = false;
  for (const [kind, input] of entries) {
    const read = readers.get(kind);
    if (read === undefined)
      throw malformed(at, `${quoted(kind)} is no kind of principal here: AWS, CanonicalUser or Service`);
    for (const name of readNames(input, `${at}.${kind}`)) {
      if (kind === 'AWS' && name === '*') everyone = true;
      else read(name, `${at}.${kind}`, found);
    }
  }
  return { everyone, ...found };
}

/** @param owner the account that owns the resource */
function isNamed(
  { arns, own, services }: Principals,
  principal: Principal,
  owner: string | undefined,
): boolean {
  const { arn, account, sessionArn, service } = principal;
  if (arn !== '' && arns.has(arn)) return true;
  if (sessionArn !== undefined && arns.has(sessionArn)) return true;
  if (service !== undefined && services.has(service)) return true;
  if (own.size === 0 || arn === '' || account === '' || account !== owner) return false;
  return own.has(arn.slice(arn.indexOf(`::${account}:`) + account.length + 3));
}

/** How the statement reaches the caller, or undefined when it does not. */
export function findReach(
  principals: Principals,
  principal: Principal,
  owner: string | undefined,
): Reach | undefined {
  if (principals.everyone || isNamed(principals, principal, owner)) return 'direct';
  if (principal.account === '' || !principals.accounts.has(principal.account)) return undefined;
  return principal.kind === 'root' ? 'direct' : 'account';
}

/**
 * Whether NotPrincipal exempts the caller. An account exempts its root only: its users must be named themselves, as AWS documents.
 */
export const isExempt = (principals: Principals, principal: Principal, owner: string | undefined): boolean =>
  findReach(principals, principal, owner) === 'direct';

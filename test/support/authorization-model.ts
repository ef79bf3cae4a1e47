/**
 * A slow and simple model of authorization by the public API's rules ("How Amazon S3 authorizes a request", "Policy evaluation logic",
 * "Blocking public access", "Controlling ownership of objects"): sets of statements and grants, all of which are searched for every
 * decision. It shares no code with the engine.
 */

export const accounts = ['alice-account', 'bob-account', 'carol-account'] as const;
export type Account = (typeof accounts)[number];
/** The account of the bucket and of its access points. */
export const home: Account = 'alice-account';

export const actions = [
  's3:GetObject',
  's3:GetObjectAcl',
  's3:PutObject',
  's3:DeleteObject',
  's3:ListBucket',
  's3:GetBucketAcl',
  's3:GetBucketPolicy',
  's3:GetBucketTagging',
] as const;
export type Action = (typeof actions)[number];
/** `mine` is an object of the bucket's account, `theirs` one that bob wrote, `scratch` is written and deleted. */
export type Key = '' | 'mine' | 'theirs' | 'scratch';
export const pointNames = ['open', 'shut'] as const;
export type PointName = (typeof pointNames)[number];

/** The resource of a statement. */
export type Place = 'bucket' | 'objects' | 'mine' | 'point' | 'point-objects' | 'everything';

export interface Statement {
  readonly effect: 'Allow' | 'Deny';
  /** In policies of resources: '*', accounts, and names of users, roles and sessions. */
  readonly who: readonly string[];
  readonly actions: readonly (Action | 's3:*')[];
  readonly places: readonly Place[];
  /** The condition that `aws:PrincipalAccount` equals this. */
  readonly account?: Account | undefined;
  /** The condition that `s3:DataAccessPointAccount` is the bucket's account. */
  readonly isDelegated?: boolean | undefined;
}

export type Permission = 'READ' | 'WRITE' | 'READ_ACP' | 'WRITE_ACP' | 'FULL_CONTROL';
export interface Grant {
  readonly to: Account | 'AllUsers' | 'AuthenticatedUsers';
  readonly permission: Permission;
}

export interface Caller {
  readonly name: string;
  /** Undefined: anonymous. */
  readonly account: Account | undefined;
  readonly isRoot: boolean;
  /** The ARNs by which a policy names the caller itself. */
  readonly arns: readonly string[];
  readonly identity: readonly Statement[];
  readonly boundary?: readonly Statement[] | undefined;
  readonly session?: readonly Statement[] | undefined;
}

export interface Block {
  readonly ignoresPublicAcls: boolean;
  readonly restrictsPublic: boolean;
}

export interface World {
  readonly policy: readonly Statement[];
  readonly block: Block;
  readonly ownership: 'BucketOwnerEnforced' | 'BucketOwnerPreferred' | 'ObjectWriter';
  readonly acls: Readonly<Record<'bucket' | 'mine' | 'theirs', readonly Grant[]>>;
  readonly points: Readonly<
    Record<PointName, { readonly policy: readonly Statement[]; readonly block: Block }>
  >;
}

export interface Question {
  readonly action: Action;
  readonly key: Key;
  readonly point?: PointName | undefined;
}

/** The resource of the request, by its own name or by its name behind the access point. */
type Side = 'bucket' | 'point';

function covers(place: Place, key: Key, side: Side): boolean {
  if (place === 'everything') return true;
  if (side === 'point') return place === (key === '' ? 'point' : 'point-objects');
  return place === (key === '' ? 'bucket' : 'objects') || (place === 'mine' && key === 'mine');
}

/** Whether a statement applies to the request, apart from its caller. */
function speaks(statement: Statement, caller: Caller, { action, key, point }: Question, side: Side): boolean {
  const isAction = statement.actions.some((each) => each === 's3:*' || each === action);
  const isPlace = statement.places.some((place) => covers(place, key, side));
  const isAccount = statement.account === undefined || statement.account === caller.account;
  const isDelegated = statement.isDelegated !== true || point !== undefined;
  return isAction && isPlace && isAccount && isDelegated;
}

const namesItself = ({ who }: Statement, { arns, account, isRoot }: Caller): boolean =>
  who.includes('*') ||
  arns.some((arn) => who.includes(arn)) ||
  (isRoot && account !== undefined && who.includes(account));
const namesAccount = ({ who }: Statement, { account }: Caller): boolean =>
  account !== undefined && who.includes(account);
const names = (statement: Statement, caller: Caller): boolean =>
  namesItself(statement, caller) || namesAccount(statement, caller);

/** A policy is public if it allows every caller without a condition that an unknown caller cannot meet. */
const isPublic = (policy: readonly Statement[]): boolean =>
  policy.some(
    ({ effect, who, account, isDelegated }) =>
      effect === 'Allow' && who.includes('*') && account === undefined && isDelegated !== true,
  );

const aclNeeds: Partial<Readonly<Record<Action, readonly ['bucket' | 'object', Permission]>>> = {
  's3:GetObject': ['object', 'READ'],
  's3:GetObjectAcl': ['object', 'READ_ACP'],
  's3:PutObject': ['bucket', 'WRITE'],
  's3:DeleteObject': ['bucket', 'WRITE'],
  's3:ListBucket': ['bucket', 'READ'],
  's3:GetBucketAcl': ['bucket', 'READ_ACP'],
};
/** The actions that the object's owner decides, even in a bucket of another account. */
const ofObjectOwner: readonly Action[] = ['s3:GetObject', 's3:GetObjectAcl'];
const ofPolicy: readonly Action[] = ['s3:GetBucketPolicy'];

/** How a resource grants access: to the caller itself, to its account, or not. */
type Entry = 'itself' | 'account' | undefined;
const either = (a: Entry, b: Entry): Entry => (a === 'itself' || b === 'itself' ? 'itself' : (a ?? b));

function entryByPolicy(
  policy: readonly Statement[],
  caller: Caller,
  question: Question,
  { side, isRestricted }: { readonly side: Side; readonly isRestricted: boolean },
): Entry {
  if (isRestricted && isPublic(policy) && caller.account !== home) return undefined;
  const found = policy.filter(
    (each) => each.effect === 'Allow' && names(each, caller) && speaks(each, caller, question, side),
  );
  if (found.some((each) => namesItself(each, caller))) return 'itself';
  return found.length > 0 ? 'account' : undefined;
}

function entryByAcl(world: World, caller: Caller, { action, key }: Question, ignoresPublic: boolean): Entry {
  const need = aclNeeds[action];
  if (need === undefined || world.ownership === 'BucketOwnerEnforced') return undefined;
  const [of, permission] = need;
  const acl = of === 'bucket' ? world.acls.bucket : key === 'mine' || key === 'theirs' ? world.acls[key] : [];
  const grants = acl.filter((each) => each.permission === permission || each.permission === 'FULL_CONTROL');
  const isGranted = (to: Grant['to']): boolean => grants.some((each) => each.to === to);
  if (!ignoresPublic && isGranted('AllUsers')) return 'itself';
  if (caller.account === undefined) return undefined;
  if (!ignoresPublic && isGranted('AuthenticatedUsers')) return 'itself';
  if (!isGranted(caller.account)) return undefined;
  return caller.isRoot ? 'itself' : 'account';
}

/** Inside its account either side suffices; between accounts both are needed; an anonymous caller has one side only. */
function opens(owner: Account, entry: Entry, caller: Caller, hasOwnLeave: boolean): boolean {
  if (caller.account === undefined) return entry === 'itself';
  if (caller.account === owner) return hasOwnLeave || entry === 'itself';
  return hasOwnLeave && entry !== undefined;
}

export function mayDo(world: World, caller: Caller, question: Question): boolean {
  const point = question.point === undefined ? undefined : world.points[question.point];
  const side: Side = point === undefined ? 'bucket' : 'point';
  const own = [...caller.identity, ...(caller.boundary ?? []), ...(caller.session ?? [])];
  const denies = (each: Statement, at: Side): boolean =>
    each.effect === 'Deny' && speaks(each, caller, question, at);
  const deniedAs = (policy: readonly Statement[], at: Side): boolean =>
    policy.some((each) => names(each, caller) && denies(each, at));

  // An explicit Deny of any policy, which may name the bucket or the access point.
  if (own.some((each) => denies(each, 'bucket') || denies(each, side))) return false;
  // The root of the bucket's account can always read and repair the policy.
  const isRescue = caller.isRoot && caller.account === home && ofPolicy.includes(question.action);
  if (!isRescue && deniedAs(world.policy, 'bucket')) return false;
  if (point !== undefined && deniedAs(point.policy, 'point')) return false;

  // Boundaries and session policies limit the caller.
  const allows = (policy: readonly Statement[]): boolean =>
    policy.some((each) => each.effect === 'Allow' && speaks(each, caller, question, side));
  if (caller.boundary !== undefined && !allows(caller.boundary)) return false;
  if (caller.session !== undefined && !allows(caller.session)) return false;
  const hasOwnLeave = caller.isRoot || allows(caller.identity);

  // The blocks of the bucket and of the access point both apply.
  const ignoresPublic = world.block.ignoresPublicAcls || point?.block.ignoresPublicAcls === true;
  const isRestricted = world.block.restrictsPublic || point?.block.restrictsPublic === true;

  // The owner of the object decides, even if it is another account, unless the bucket's ownership is enforced.
  const isForeign =
    question.key === 'theirs' &&
    world.ownership !== 'BucketOwnerEnforced' &&
    ofObjectOwner.includes(question.action);
  const owner: Account = isForeign ? 'bob-account' : home;
  const byPolicy = isForeign
    ? undefined
    : entryByPolicy(world.policy, caller, question, { side: 'bucket', isRestricted });
  const entry = either(byPolicy, entryByAcl(world, caller, question, ignoresPublic));
  if (!opens(owner, entry, caller, hasOwnLeave)) return false;
  if (point === undefined) return true;
  const atPoint = entryByPolicy(point.policy, caller, question, { side: 'point', isRestricted });
  return opens(home, atPoint, caller, hasOwnLeave);
}

/** Random configurations of `authorization-model.ts`, and a gateway that is configured accordingly by signed requests. */
import { aclXml, authenticated, blockXml, everyone, ownershipXml } from './access.ts';
import { acting, domain, open4 } from './access-points.ts';
import { type Act, openActions } from './actions.ts';
import {
  type Account,
  type Action,
  accounts,
  actions,
  type Block,
  type Caller,
  type Grant,
  home,
  type Permission,
  type Place,
  type PointName,
  pointNames,
  type Question,
  type Statement,
  type World,
} from './authorization-model.ts';
import type { Dice } from './dice.ts';
import { alice, bob, type GatewayWorld, person } from './gateway.ts';
import type { Answer, Client } from './gateway-client.ts';
import { assume, must, openUser, trusting } from './iam-users.ts';

export const carol = person('carol');
/** The audit limit is high, because the anonymous caller gets many refusals. */
export const settings = { SVC_DOMAIN: domain, SVC_AUDIT_UNKNOWN_CALLERS: '100000' };

const pointArn = (name: PointName): string => `arn:aws:s3:default:${home}:accesspoint/${name}`;
const arnsOf: Readonly<Record<Place, readonly string[]>> = {
  bucket: ['arn:aws:s3:::bucket'],
  objects: ['arn:aws:s3:::bucket/*'],
  mine: ['arn:aws:s3:::bucket/mine'],
  point: pointNames.map(pointArn),
  'point-objects': pointNames.map((name) => `${pointArn(name)}/object/*`),
  everything: ['*'],
};

const conditionOf = ({ account, isDelegated }: Statement): Record<string, string> => ({
  ...(account === undefined ? {} : { 'aws:PrincipalAccount': account }),
  ...(isDelegated === true ? { 's3:DataAccessPointAccount': home } : {}),
});

/** @param point the access point of the policy, which may name no other one */
function documentOf(
  policy: readonly Statement[],
  { isOfResource, point }: { readonly isOfResource: boolean; readonly point?: PointName },
): string {
  const Statement = policy.map((each) => {
    const Condition = { StringEquals: conditionOf(each) };
    return {
      Effect: each.effect,
      ...(isOfResource ? { Principal: each.who.includes('*') ? '*' : { AWS: each.who } } : {}),
      Action: each.actions,
      Resource: each.places
        .flatMap((place) => arnsOf[place])
        .filter((arn) => point === undefined || arn.startsWith(pointArn(point))),
      ...(Object.keys(Condition.StringEquals).length === 0 ? {} : { Condition }),
    };
  });
  return JSON.stringify({ Version: '2012-10-17', Statement });
}

const placesOf = {
  bucket: ['bucket', 'objects', 'objects', 'mine'],
  point: ['point', 'point-objects', 'point-objects'],
  identity: [
    'bucket',
    'objects',
    'mine',
    'point',
    'point-objects',
    'everything',
    'everything',
    'everything',
    'everything',
  ],
} as const satisfies Readonly<Record<string, readonly Place[]>>;

const fits = (action: Action, place: Place): boolean =>
  place === 'everything' || action.includes('Object') !== (place === 'bucket' || place === 'point');

function randomPolicy(
  dice: Dice,
  kind: keyof typeof placesOf,
  { who, most }: { readonly who: readonly string[]; readonly most: number },
): Statement[] {
  return dice.several([0, most], () => {
    const places = dice.several([1, 2], () => dice.pick<Place>(placesOf[kind]));
    // A resource policy is refused if an action applies to none of the resources of its statement.
    const fitting = actions.filter((action) => places.some((place) => fits(action, place)));
    return {
      effect: dice.chance(kind === 'bucket' ? 3 : 4) ? 'Deny' : 'Allow',
      who: kind === 'identity' ? [] : dice.several([1, 2], () => dice.pick(who)),
      actions: dice.chance(2) ? ['s3:*' as const] : dice.several([1, 3], () => dice.pick(fitting)),
      places,
      account: dice.chance(6) ? dice.pick(accounts) : undefined,
      isDelegated: kind !== 'identity' && dice.chance(6),
    };
  });
}

const permissions: readonly Permission[] = ['READ', 'WRITE', 'READ_ACP', 'WRITE_ACP', 'FULL_CONTROL'];
const randomAcl = (dice: Dice): Grant[] =>
  dice.several([0, 3], () => ({
    to: dice.pick<Grant['to']>([...accounts, 'AllUsers', 'AuthenticatedUsers']),
    permission: dice.pick(permissions),
  }));
const randomBlock = (dice: Dice): Block => ({
  ignoresPublicAcls: dice.chance(3),
  restrictsPublic: dice.chance(3),
});

const groups: Readonly<Record<string, string>> = { AllUsers: everyone, AuthenticatedUsers: authenticated };
const aclOf = (owner: Account, grants: readonly Grant[]): string =>
  aclXml(owner, ...grants.map(({ to, permission }) => `${groups[to] ?? to} ${permission}`));
const blockOf = ({ ignoresPublicAcls, restrictsPublic }: Block): string =>
  blockXml(
    ...(ignoresPublicAcls ? (['IgnorePublicAcls'] as const) : []),
    ...(restrictsPublic ? (['RestrictPublicBuckets'] as const) : []),
  );

async function expectOk(answer: Promise<Answer>): Promise<void> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(`${status} ${text}`);
}

/** An account with its root, a user and a role. */
interface Household {
  readonly account: Account;
  readonly iam: Act;
  readonly user: Client;
  readonly userName: string;
  readonly role: string;
}

const boundaries = 6;

export interface Asker {
  readonly caller: Caller;
  readonly client: Client;
}

/** The gateway with the accounts, the bucket and the access points, before any configuration. */
export class AuthorizationWorld {
  readonly #world: GatewayWorld;
  readonly #dice: Dice;
  readonly #households: Household[] = [];
  readonly #boundaries: (readonly Statement[])[] = [];
  readonly #aliases = new Map<PointName, string>();

  constructor(world: GatewayWorld, dice: Dice) {
    this.#world = world;
    this.#dice = dice;
  }

  async open(): Promise<void> {
    const { client, bob: other } = this.#world;
    for (let i = 0; i < boundaries; i++)
      this.#boundaries.push([...randomPolicy(this.#dice, 'identity', { who: [], most: 2 }), allowAll(i)]);
    for (const root of [alice, bob]) await this.#openHousehold(root);
    await expectOk(client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } }));
    await expectOk(client.put('/bucket/mine', { body: 'x' }));
    await expectOk(client.put('/bucket?acl', { headers: { '*-acl': 'public-read-write' } }));
    await expectOk(other.put('/bucket/theirs', { body: 'x' }));
    for (const name of pointNames) {
      const more = name === 'open' ? open4 : {};
      const parameters = { Name: name, Bucket: 'bucket', ...more };
      const made = await must(acting(this.#world)('CreateAccessPoint', parameters));
      this.#aliases.set(name, made.one('Alias') ?? '');
    }
  }

  async #openHousehold(root: typeof alice): Promise<void> {
    const account = root.owner as Account;
    const iam = openActions(this.#world, { credential: root });
    const userName = `user-of-${account}`;
    const user = await openUser(this.#world, userName, { root });
    for (const [i, policy] of this.#boundaries.entries()) {
      const PolicyDocument = documentOf(policy, { isOfResource: false });
      await must(iam('CreatePolicy', { PolicyName: `most-${i}`, PolicyDocument }));
    }
    const AssumeRolePolicyDocument = trusting({ AWS: account });
    const RoleName = `role-of-${account}`;
    const made = await must(iam('CreateRole', { RoleName, AssumeRolePolicyDocument }));
    this.#households.push({
      account,
      iam,
      user: this.#world.as({ credential: user.credential }),
      userName,
      role: made.one('Arn') ?? '',
    });
  }

  /** The principals that resource policies can name. */
  #names(): readonly string[] {
    const own = this.#households.flatMap(({ account, userName, role }) => [
      `arn:aws:iam::${account}:user/${userName}`,
      role,
      sessionArn(account),
    ]);
    return ['*', '*', ...accounts, ...own];
  }

  async #setBoundary(
    { iam, account }: Household,
    { kind, name }: { readonly kind: 'User' | 'Role'; readonly name: string },
  ): Promise<readonly Statement[] | undefined> {
    const named = { [`${kind}Name`]: name };
    if (this.#dice.chance(2)) {
      await iam(`Delete${kind}PermissionsBoundary`, named);
      return undefined;
    }
    const i = this.#dice.roll(boundaries);
    const PermissionsBoundary = `arn:aws:iam::${account}:policy/most-${i}`;
    await must(iam(`Put${kind}PermissionsBoundary`, { ...named, PermissionsBoundary }));
    return this.#boundaries[i];
  }

  async #setIdentity(
    { iam }: Household,
    { kind, name }: { readonly kind: 'User' | 'Role'; readonly name: string },
  ): Promise<readonly Statement[]> {
    const named = { [`${kind}Name`]: name, PolicyName: 'test' };
    const policy = randomPolicy(this.#dice, 'identity', { who: [], most: 3 });
    if (policy.length === 0) await iam(`Delete${kind}Policy`, named);
    else {
      const PolicyDocument = documentOf(policy, { isOfResource: false });
      await must(iam(`Put${kind}Policy`, { ...named, PolicyDocument }));
    }
    return policy;
  }

  /** All callers: the anonymous caller, three roots, two users and two sessions of roles, with new policies. */
  async askers(): Promise<Asker[]> {
    const world = this.#world;
    const fixed = { arns: [], identity: [] };
    const found: Asker[] = [
      { client: world.anonymous, caller: { name: 'anonymous', account: undefined, isRoot: false, ...fixed } },
    ];
    for (const credential of [alice, bob, carol]) {
      const account = credential.owner as Account;
      const caller = { name: `root of ${account}`, account, isRoot: true, ...fixed };
      found.push({ client: world.as({ credential }), caller });
    }
    for (const household of this.#households)
      found.push(await this.#userOf(household), await this.#sessionOf(household));
    return found;
  }

  async #userOf(household: Household): Promise<Asker> {
    const { account, user, userName: name } = household;
    const identity = await this.#setIdentity(household, { kind: 'User', name });
    const boundary = await this.#setBoundary(household, { kind: 'User', name });
    const arns = [`arn:aws:iam::${account}:user/${name}`];
    return { client: user, caller: { name, account, isRoot: false, arns, identity, boundary } };
  }

  async #sessionOf(household: Household): Promise<Asker> {
    const { account, iam, role } = household;
    const name = `role-of-${account}`;
    const identity = await this.#setIdentity(household, { kind: 'Role', name });
    const boundary = await this.#setBoundary(household, { kind: 'Role', name });
    const policy = randomPolicy(this.#dice, 'identity', { who: [], most: 3 });
    const session = policy.length === 0 ? undefined : policy;
    const Policy = documentOf(policy, { isOfResource: false });
    const { options } = await assume(this.#world, iam, { role, ...(session && { Policy }) });
    const arns = [role, sessionArn(account)];
    const caller = { name: `session of ${name}`, account, isRoot: false, arns, identity, boundary, session };
    return { client: this.#world.as(options), caller };
  }

  /** Brings bucket, objects and access points into a random configuration. */
  async configure(): Promise<World> {
    const { client, bob: other } = this.#world;
    const dice = this.#dice;
    const who = this.#names();
    // First remove everything that could forbid the following steps.
    await client.delete('/bucket?policy');
    await client.delete('/bucket?publicAccessBlock');
    await expectOk(client.put('/bucket?ownershipControls', { body: ownershipXml('ObjectWriter') }));
    const acls = { bucket: randomAcl(dice), mine: randomAcl(dice), theirs: randomAcl(dice) };
    const ownership = dice.pick(['BucketOwnerEnforced', 'BucketOwnerPreferred', 'ObjectWriter'] as const);
    // A bucket's ACL must be private before ACLs are disabled.
    if (ownership === 'BucketOwnerEnforced') acls.bucket = [{ to: home, permission: 'FULL_CONTROL' }];
    await expectOk(client.put('/bucket?acl', { body: aclOf(home, acls.bucket) }));
    await expectOk(client.put('/bucket/mine?acl', { body: aclOf(home, acls.mine) }));
    await expectOk(other.put('/bucket/theirs?acl', { body: aclOf('bob-account', acls.theirs) }));
    await expectOk(client.put('/bucket?ownershipControls', { body: ownershipXml(ownership) }));
    const block = randomBlock(dice);
    await expectOk(client.put('/bucket?publicAccessBlock', { body: blockOf(block) }));
    const policy = randomPolicy(dice, 'bucket', { who, most: 4 });
    const body = documentOf(policy, { isOfResource: true });
    if (policy.length > 0) await expectOk(client.put('/bucket?policy', { body }));
    const points = {
      open: {
        policy: await this.#setPoint('open'),
        block: { ignoresPublicAcls: false, restrictsPublic: false },
      },
      shut: {
        policy: await this.#setPoint('shut'),
        block: { ignoresPublicAcls: true, restrictsPublic: true },
      },
    };
    return { policy, block, ownership, acls, points };
  }

  async #setPoint(name: PointName): Promise<readonly Statement[]> {
    const act = acting(this.#world);
    // A new access point blocks public policies.
    const who = this.#names().filter((each) => name === 'open' || each !== '*');
    const policy = randomPolicy(this.#dice, 'point', { who, most: 3 });
    if (policy.length === 0) await act('DeleteAccessPointPolicy', { Name: name });
    else {
      const Policy = documentOf(policy, { isOfResource: true, point: name });
      await must(act('PutAccessPointPolicy', { Name: name, Policy }));
    }
    return policy;
  }

  /** Whether the gateway allows the request: any answer except a refusal for a missing permission. */
  async isLet(client: Client, { action, key, point }: Question): Promise<boolean> {
    const [method, query] = requests[action];
    const bucket = point === undefined ? 'bucket' : this.#aliases.get(point);
    const answer = await client.send(method, `/${bucket}${key === '' ? '' : `/${key}`}${query}`);
    if (answer.status >= 500) throw new Error(`${answer.status} ${answer.text}`);
    return answer.status !== 403;
  }
}

const sessionArn = (account: Account): string =>
  `arn:aws:sts::${account}:assumed-role/role-of-${account}/session`;

/** Boundaries that allow nothing would hide every other rule: half of them allow everything that they do not deny. */
const allowAll = (i: number): Statement => ({
  effect: 'Allow',
  who: [],
  actions: i % 2 === 0 ? ['s3:*'] : ['s3:GetObject', 's3:ListBucket'],
  places: ['everything'],
});

const requests: Readonly<Record<Question['action'], readonly [method: string, query: string]>> = {
  's3:GetObject': ['GET', ''],
  's3:GetObjectAcl': ['GET', '?acl'],
  's3:PutObject': ['PUT', ''],
  's3:DeleteObject': ['DELETE', ''],
  's3:ListBucket': ['GET', ''],
  's3:GetBucketAcl': ['GET', '?acl'],
  's3:GetBucketPolicy': ['GET', '?policy'],
  's3:GetBucketTagging': ['GET', '?tagging'],
};

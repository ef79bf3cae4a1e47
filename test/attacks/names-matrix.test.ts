/**
 * The attack matrix of names in bodies and queries: random cells of caller × the resources that its policies deny ×
 * operation of the operator API × the place of the name (path, second path, query, body, ARN, access key, entry of a
 * listing). The model knows the public rule only: a Deny of a resource holds for each operation that names it, wherever
 * the name stands, and hides its rows in listings. See docs/mutation.md for the mutations of the code that it finds.
 */
import { expect, onTestFinished, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import type { Dice } from '../support/dice.ts';
import { alice, bob, openGateway, operator } from '../support/gateway.ts';
import type { Answer, Client, ClientOptions } from '../support/gateway-client.ts';
import { must, openUser, putPolicy, sessionOf } from '../support/iam-users.ts';
import { type Cell, sampleMatrix } from '../support/matrix.ts';

// The model.

/** `closed` has the policies of a cell, `session` is one of its sessions, `root` is an operator that no policy binds. */
type Caller = 'closed' | 'session' | 'root' | 'tenant' | 'anonymous';
const callers: readonly Caller[] = ['closed', 'closed', 'closed', 'session', 'root', 'tenant', 'anonymous'];

const accounts = [alice.owner, bob.owner] as const;
const bucketNames = ['books', 'papers', 'letters'] as const;
const users = ['chief', 'junior'] as const;
const own = operator.owner;
const policyNames = ['powers', 'harmless'] as const;
const resources = [
  ...accounts.map((name) => `accounts/${name}`),
  ...bucketNames.map((name) => `buckets/${name}`),
  ...users.map((name) => `accounts/${own}/users/${name}`),
  ...policyNames.map((name) => `accounts/${own}/policies/${name}`),
  `accounts/${own}/groups/staff`,
  'clusters/default',
  'keys/secret',
  'replication/peers/far',
];

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  /** What the request names, beside listings. */
  readonly names: readonly string[];
  /** Whether the tenant alice may do it, with something of its own. */
  readonly isTenants?: boolean;
  /** Of a listing: the field of its entries that names a resource, and the collection of these resources. */
  readonly lists?: { readonly field: string; readonly of: 'accounts' | 'buckets' };
}

// Refusing a request changes nothing, and the operations below change only what the model of a world knows.

const peer = { accessKey: 'KEY', secretKey: 'secret-of-far', endpoint: 'http://127.0.0.1:1' };
const unlimited = { maxBuckets: 0, totalMaxBytes: 0 };
const quota = { maxBytes: 0, maxObjects: 0, maxBytesPerObject: 0 };
const policyArn = (name: string): string => `arn:aws:iam::${own}:policy/${name}`;

const owned: Readonly<Record<(typeof bucketNames)[number], string>> = {
  books: alice.owner,
  papers: bob.owner,
  letters: alice.owner,
};

const operations: Readonly<Record<string, (dice: Dice) => Operation>> = {
  'a bucket in the path': (dice) => {
    const name = dice.pick(bucketNames);
    const names = [`buckets/${name}`];
    const isTenants = owned[name] === alice.owner;
    return dice.pick<Operation>([
      { method: 'GET', path: `/buckets/${name}`, names, isTenants },
      { method: 'GET', path: `/buckets/${name}/quota`, names, isTenants },
      { method: 'GET', path: `/buckets/${name}/usage`, names, isTenants },
      { method: 'GET', path: `/buckets/${name}/traffic`, names, isTenants },
      { method: 'PUT', path: `/buckets/${name}/quota`, body: quota, names },
      { method: 'PUT', path: `/buckets/${name}/limits`, body: { requestsPerSecond: 100_000 }, names },
    ]);
  },
  'a bucket in a query or body': (dice) => {
    const name = dice.pick(bucketNames);
    const names = [`buckets/${name}`];
    return dice.pick<Operation>([
      { method: 'GET', path: `/audit?bucket=${name}`, names },
      {
        method: 'POST',
        path: '/why',
        body: { action: 's3:GetObject', bucket: name, key: 'k' },
        names,
        isTenants: owned[name] === alice.owner,
      },
      { method: 'POST', path: '/replication/retry', body: { bucket: name }, names },
    ]);
  },
  'an account in the path': (dice) => {
    const name = dice.pick(accounts);
    const names = [`accounts/${name}`];
    return dice.pick<Operation>([
      { method: 'GET', path: `/accounts/${name}`, names, isTenants: name === alice.owner },
      { method: 'PUT', path: `/accounts/${name}/limits`, body: { requestsPerSecond: 100_000 }, names },
      { method: 'GET', path: `/accounts/${name}/users`, names },
    ]);
  },
  'an account by its second path': (dice) => {
    const name = dice.pick(accounts);
    const names = [`accounts/${name}`];
    const isTenants = name === alice.owner;
    return dice.pick<Operation>([
      { method: 'GET', path: `/iam/users/${name}/quota`, names, isTenants },
      { method: 'PUT', path: `/iam/users/${name}/quota`, body: unlimited, names },
      { method: 'GET', path: `/iam/users/${name}/usage`, names, isTenants },
      { method: 'GET', path: `/iam/users/${name}/traffic`, names, isTenants },
    ]);
  },
  'an account in a query or body': (dice) => {
    const name = dice.pick(accounts);
    const { accessKey } = name === alice.owner ? alice : bob;
    const names = [`accounts/${name}`];
    const bucket = dice.pick(bucketNames);
    return dice.pick<Operation>([
      { method: 'GET', path: `/buckets?owner=${name}`, names, isTenants: name === alice.owner },
      { method: 'GET', path: `/audit?identity=${name}`, names },
      { method: 'GET', path: `/audit?identity=${accessKey}`, names },
      { method: 'POST', path: '/why', body: { action: 's3:GetObject', accessKey }, names },
      {
        method: 'POST',
        path: '/why',
        body: { action: 's3:GetObject', accessKey, bucket, key: 'k' },
        names: [...names, `buckets/${bucket}`],
        isTenants: name === alice.owner && owned[bucket] === alice.owner,
      },
      { method: 'DELETE', path: `/logins?accessKey=${accessKey}`, names },
      {
        method: 'PUT',
        path: `/buckets/${bucket}/owner`,
        body: { owner: owned[bucket] },
        names: [`buckets/${bucket}`, `accounts/${owned[bucket]}`],
      },
      {
        method: 'PUT',
        path: '/replication/peers/far',
        body: {
          ...peer,
          accounts: dice.several([0, 1], () => ({ account: own })).concat({ account: name }),
        },
        names: [...names, 'replication/peers/far'],
      },
    ]);
  },
  'a user or policy in a body': (dice) => {
    const [name, policy] = [dice.pick(users), dice.pick(policyNames)];
    const user = `accounts/${own}/users/${name}`;
    const attached = [user, `accounts/${own}/policies/${policy}`];
    const body = { kind: 'user', name, policy: policyArn(policy) };
    return dice.pick<Operation>([
      { method: 'GET', path: `/accounts/${own}/users/${name}`, names: [user] },
      { method: 'GET', path: `/accounts/${own}/policies/${policy}`, names: attached.slice(1) },
      { method: 'POST', path: `/accounts/${own}/attachments`, body, names: attached },
      {
        method: 'PUT',
        path: `/accounts/${own}/groups/staff/users/${name}`,
        names: [user, `accounts/${own}/groups/staff`],
      },
    ]);
  },
  'a cluster, key or peer in a body': (dice) => {
    const bucket = dice.pick(bucketNames);
    return dice.pick<Operation>([
      {
        method: 'PUT',
        path: `/buckets/${bucket}/placement`,
        body: { placement: { default: 1 } },
        names: [`buckets/${bucket}`, 'clusters/default'],
      },
      { method: 'GET', path: '/replication/peers/far', names: ['replication/peers/far'] },
      { method: 'GET', path: '/clusters/default/drain-progress', names: ['clusters/default'] },
    ]);
  },
  'entries of a listing': (dice) =>
    dice.pick<Operation>([
      { method: 'GET', path: '/buckets', names: [], lists: { field: 'name', of: 'buckets' } },
      { method: 'GET', path: '/accounts', names: [], lists: { field: 'account', of: 'accounts' } },
      { method: 'GET', path: '/audit', names: [], lists: { field: 'account', of: 'accounts' } },
    ]),
};

/** `root` and `tenant` have no policies of operators; the others may do all that no Deny covers. */
function isAllowed(
  caller: Caller,
  { names, isTenants = false }: Operation,
  denied: readonly string[],
): boolean {
  if (caller === 'anonymous') return false;
  if (caller === 'root') return true;
  if (caller === 'tenant') return isTenants;
  // A user is in its account: a Deny of `accounts/a/*` covers all that is below.
  return !names.some((name) => denied.some((each) => name === each || name.startsWith(`${each}/`)));
}

// The requests.

const arn = (path: string): string => `arn:aws:admin:::${path}`;
const documentOf = (denied: readonly string[]): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
      ...(denied.length === 0
        ? []
        : [
            {
              Effect: 'Deny',
              Action: 'admin:*',
              Resource: denied.flatMap((path) => [arn(path), arn(`${path}/*`)]),
            },
          ]),
    ],
  });

async function open() {
  const world = await openGateway();
  const root = openActions(world, { credential: operator });
  for (const [name, owner] of Object.entries(owned))
    await (owner === bob.owner ? world.bob : world.client).put(`/${name}`);
  for (const UserName of users) await must(root('CreateUser', { UserName }));
  await must(root('CreateGroup', { GroupName: 'staff' }));
  const PolicyDocument = documentOf([]);
  for (const PolicyName of policyNames) await must(root('CreatePolicy', { PolicyName, PolicyDocument }));
  const closed = await openUser(world, 'closed', { root: operator, policy: documentOf([]) });
  const options: Readonly<Record<Caller, ClientOptions>> = {
    closed: { credential: closed.credential },
    session: sessionOf(world, await closed.act('GetSessionToken')).options,
    root: { credential: operator },
    tenant: { credential: alice },
    anonymous: { anonymous: true },
  };
  const deny = (denied: readonly string[]) => must(putPolicy(root, 'closed', documentOf(denied)));
  const admin = operatorOf(world);
  await admin.must('PUT', '/replication/peers/far', peer);
  for (const bucket of bucketNames) await admin.must('PUT', `/buckets/${bucket}/quota`, quota);
  for (const account of accounts) await admin.must('PUT', `/iam/users/${account}/quota`, unlimited);
  return { world, deny, clientOf: (caller: Caller): Client => world.as(options[caller]) };
}

type World = Awaited<ReturnType<typeof open>>;

const rowsOf = ({ text }: Answer): readonly Record<string, unknown>[] =>
  (JSON.parse(text) as { rows: readonly Record<string, unknown>[] }).rows;

/** The entries that a Deny covers are left out, and no other. */
async function checkListing(
  { world }: Pick<World, 'world'>,
  { field, of }: NonNullable<Operation['lists']>,
  { denied, answer, path }: { denied: readonly string[]; answer: Answer; path: string },
): Promise<void> {
  const shown = new Set(rowsOf(answer).map((row) => row[field]));
  const all = rowsOf(await world.as({ credential: operator }).get(`/admin/v1${path}`));
  const isHidden = (row: Record<string, unknown>): boolean =>
    denied.includes(`${of}/${row[field]}`) || denied.includes(`accounts/${row['owner']}`);
  const known: readonly string[] = of === 'buckets' ? bucketNames : accounts;
  for (const row of all.filter((each) => known.includes(String(each[field])))) {
    // Rows of the audit log are hidden also for their bucket, so that some of an account may be.
    if (path !== '/audit' || isHidden(row))
      expect([denied, row[field], shown.has(row[field])]).toEqual([denied, row[field], !isHidden(row)]);
  }
}

function drawCell({ world, deny, clientOf }: World, dice: Dice, kind: string): Cell {
  const caller = dice.pick(callers);
  const operation = (operations[kind] as (dice: Dice) => Operation)(dice);
  const near = operation.names.length > 0 && dice.chance(2) ? [dice.pick(operation.names)] : [];
  const denied = [...new Set([...near, ...dice.several([0, 2], () => dice.pick(resources))])];
  const { method, path, body, lists } = operation;
  const isLimited = caller === 'closed' || caller === 'session';
  return {
    name: `${caller}: ${method} ${path} ${JSON.stringify(body ?? '')} under a Deny of ${denied.join()}`,
    isAllowed: isAllowed(caller, operation, denied),
    async send() {
      await deny(denied);
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      return clientOf(caller).send(method, `/admin/v1${path}`, sent);
    },
    async check(answer) {
      if (answer.status < 300 && lists !== undefined)
        await checkListing({ world }, lists, { denied: isLimited ? denied : [], answer, path });
      // The request itself is well formed.
      if (answer.status >= 400) expect([`${method} ${path}`, 403, 404], answer.text).toContain(answer.status);
    },
  };
}

test('a Deny of a resource holds wherever an operation of the operator API names it', async () => {
  const world = await open();
  onTestFinished(() => world.world.close());
  await sampleMatrix(560, Object.keys(operations), (dice, kind) => drawCell(world, dice, kind));
});

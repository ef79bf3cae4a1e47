/**
 * The attack matrix of facts in a document instead of headers: random cells of caller × what policies allow and deny ×
 * facts of a replica × the request that carries the document. The model knows the public rules only, as for the
 * headers: a fact needs the public action that would set it, for which the permission to replicate stands in where it
 * must, and a Deny of which it never evades. Each cell is sent a second time with headers, where the public API has
 * such a request: what headers may not do, a document may not. See docs/mutation.md for the mutations of the code that
 * it finds.
 */
import { expect, onTestFinished, test } from 'vitest';
import type { ReplicaDocument } from '../../src/metadata/objects/properties.ts';
import { policyOf } from '../support/access.ts';
import type { Dice } from '../support/dice.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { heldUntil, openLocked } from '../support/locks.ts';
import { type Cell, sampleMatrix } from '../support/matrix.ts';
import { sendObject, sendState, versionAt, written } from '../support/replicas.ts';

// The model.

type Caller = 'alice' | 'bob' | 'anonymous';
type Fact = 'tags' | 'acl' | 'retention' | 'hold' | 'class' | 'redirect' | 'metadata';
const requests = ['object', 'upload', 'state', 'removal', 'marker'] as const;
type Request = (typeof requests)[number];

/** Bob always has the permissions to replicate and, for the twin with headers, those of which they stand in for. */
const granted = ['s3:ReplicateObject', 's3:ReplicateDelete', 's3:ReplicateTags'];
const forTwins = ['s3:PutObject', 's3:PutObjectTagging'];
/** The actions that a policy may allow bob beside these, or deny. */
const further = [
  's3:PutObjectAcl',
  's3:PutObjectVersionAcl',
  's3:PutObjectRetention',
  's3:PutObjectLegalHold',
] as const;
const denied = [
  ...further,
  's3:PutObject',
  's3:PutObjectTagging',
  's3:PutObjectVersionTagging',
  's3:DeleteObject',
  's3:DeleteObjectVersion',
  's3:ReplicateObject',
  's3:ReplicateTags',
  's3:ReplicateDelete',
];
interface Policy {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** Headers of PutObject under which a Deny of it holds. */
  readonly when?: Readonly<Record<'s3:x-amz-storage-class', string>>;
}

/** The actions that each request needs, for its facts (docs/gaps.md, V5). */
function needsOf(request: Request, facts: readonly Fact[]): readonly string[] {
  if (request === 'removal') return ['s3:ReplicateDelete', 's3:DeleteObjectVersion'];
  if (request === 'marker') return ['s3:ReplicateObject', 's3:ReplicateDelete', 's3:DeleteObject'];
  const isNew = request !== 'state';
  const needs: Readonly<Record<Fact, readonly string[]>> = {
    tags: [
      's3:ReplicateTags',
      's3:PutObjectTagging',
      // A request that names a version needs the action for versions.
      's3:PutObjectVersionTagging',
    ],
    acl: ['s3:PutObjectAcl', 's3:PutObjectVersionAcl'],
    retention: ['s3:PutObjectRetention'],
    hold: ['s3:PutObjectLegalHold'],
    class: [],
    redirect: [],
    metadata: [],
  };
  return [
    's3:ReplicateObject',
    isNew ? 's3:PutObject' : 's3:ReplicateTags',
    ...facts.flatMap((fact) => needs[fact]),
  ];
}

/** Actions that the permission to replicate stands in for: they are allowed unless a Deny says otherwise. */
const standIns = new Set([
  's3:PutObject',
  's3:PutObjectTagging',
  's3:PutObjectVersionTagging',
  's3:DeleteObject',
  's3:DeleteObjectVersion',
]);
/** A grant to a new version is judged by `s3:PutObjectAcl`, to one that exists by the action for versions; neither is denied. */
function isAllowed(
  caller: Caller,
  request: Request,
  { policy, facts }: { policy: Policy; facts: readonly Fact[] },
) {
  if (caller === 'anonymous') return false;
  const denies = (action: string): boolean =>
    policy.deny.includes(action) &&
    (action !== 's3:PutObject' ||
      policy.when === undefined ||
      (facts.includes('class') && policy.when['s3:x-amz-storage-class'] === storageClass));
  // The policy denies bob only, and the owner of the bucket needs no Allow.
  if (caller === 'alice') return true;
  const has = (action: string): boolean =>
    granted.includes(action) || standIns.has(action) || policy.allow.includes(action);
  const acl = request === 'state' ? 's3:PutObjectVersionAcl' : 's3:PutObjectAcl';
  return needsOf(request, facts).every(
    (action) => !denies(action) && (has(action) || (action.endsWith('Acl') && action !== acl)),
  );
}

/** The same as headers of PutObject. For an ACL the policies of the writer's own account suffice (docs/gaps.md, A6). */
function isTwinAllowed(facts: readonly Fact[], policy: Policy): boolean {
  const needs = [
    's3:PutObject',
    ...(facts.includes('tags') ? ['s3:PutObjectTagging'] : []),
    ...(facts.includes('acl') ? ['s3:PutObjectAcl'] : []),
    ...(facts.includes('retention') ? ['s3:PutObjectRetention'] : []),
    ...(facts.includes('hold') ? ['s3:PutObjectLegalHold'] : []),
  ];
  const isFree = ({ deny, when }: Policy, action: string): boolean =>
    !deny.includes(action) || (action === 's3:PutObject' && when !== undefined && !facts.includes('class'));
  return needs.every(
    (action) =>
      isFree(policy, action) &&
      (forTwins.includes(action) || action === 's3:PutObjectAcl' || policy.allow.includes(action)),
  );
}

// The requests.

const storageClass = 'GLACIER';
const invalids = {
  'a script as redirect': { system: { 'website-redirect-location': 'javascript:alert(1)' } },
  'a header name': { user: { A: 'x' } },
  'eleven tags': { tags: Array.from({ length: 11 }, (_, n) => [`t${n}`, 'x'] as const) },
} as const;

type World = Awaited<ReturnType<typeof openLocked>>;
let world: World;
let serial = 0;

function documentOf(facts: readonly Fact[]): Partial<ReplicaDocument> {
  const has = (fact: Fact): boolean => facts.includes(fact);
  const lock = {
    ...(has('retention') ? { mode: 'GOVERNANCE' as const, retainUntil: world.inDays(3) } : {}),
    ...(has('hold') ? { legalHold: true } : {}),
  };
  return {
    ...(has('class') ? { storageClass } : {}),
    ...(has('acl')
      ? {
          acl: [
            { grantee: { is: 'user', id: 'alice-account' }, permission: 'FULL_CONTROL' },
            { grantee: { is: 'group', group: 'AllUsers' }, permission: 'READ' },
          ] as const,
        }
      : {}),
    ...(has('retention') || has('hold') ? { lock } : {}),
    headers: {
      ...(has('tags') ? { tags: [['t', '1']] as const } : {}),
      ...(has('redirect') ? { system: { 'website-redirect-location': '/a' } } : {}),
      ...(has('metadata') ? { user: { a: 'x' } } : {}),
    },
  };
}

const headersOf = (facts: readonly Fact[]): Record<string, string> => ({
  ...(facts.includes('tags') ? { '*-tagging': 't=1' } : {}),
  ...(facts.includes('acl') ? { '*-acl': 'public-read' } : {}),
  ...(facts.includes('retention') ? heldUntil('GOVERNANCE', world.inDays(3)) : {}),
  ...(facts.includes('hold') ? { '*-object-lock-legal-hold': 'ON' } : {}),
  ...(facts.includes('class') ? { '*-storage-class': storageClass } : {}),
  ...(facts.includes('redirect') ? { '*-website-redirect-location': '/a' } : {}),
  ...(facts.includes('metadata') ? { '*-meta-a': 'x' } : {}),
});

async function setPolicy({ allow, deny, when }: Policy): Promise<void> {
  const Principal = { AWS: 'bob-account' };
  const Resource = 'arn:aws:s3:::bucket/*';
  const conditional: readonly string[] =
    when === undefined ? [] : deny.filter((action) => action === 's3:PutObject');
  const plain = deny.filter((action) => !conditional.includes(action));
  const body = policyOf(
    { Principal, Action: [...granted, ...forTwins, ...allow], Resource },
    ...(plain.length === 0 ? [] : [{ Effect: 'Deny', Principal, Action: plain, Resource } as const]),
    ...(conditional.length === 0
      ? []
      : [
          {
            Effect: 'Deny',
            Principal,
            Action: conditional,
            Resource,
            Condition: { StringEquals: when },
          } as const,
        ]),
  );
  const put = await world.client.put('/bucket?policy', { body });
  expect(put.status, put.text).toBe(204);
}

const clientOf = (caller: Caller): Client =>
  ({ alice: world.client, bob: world.bob, anonymous: world.anonymous })[caller];

const idsOf = async (key: string): Promise<readonly string[]> =>
  (await world.client.get(`/bucket?versions&prefix=${key}`)).all('VersionId');
/** What the owner sees of a version: a document that is refused changes none of it. */
async function factsOf(key: string): Promise<unknown> {
  const parts = ['tagging', 'acl', 'retention', 'legal-hold'].map(async (name) =>
    (await world.client.get(`/bucket/${key}?${name}`)).text.replaceAll(/<(RequestId|HostId)>.*?<\/\1>/g, ''),
  );
  return [await idsOf(key), ...(await Promise.all(parts))];
}

const facts: readonly Fact[] = ['tags', 'acl', 'retention', 'hold', 'class', 'redirect', 'metadata'];
/** A later state has the facts that can change. */
const changing = new Set<Fact>(['tags', 'acl', 'retention', 'hold']);

interface Sending {
  readonly caller: Caller;
  readonly request: Request;
  readonly facts: readonly Fact[];
  readonly policy: Policy;
  readonly invalid?: keyof typeof invalids | undefined;
}

function drawSending(dice: Dice, request: Request): Sending {
  const isConditional = dice.chance(4);
  const chosen = facts.filter(
    (fact) =>
      (request !== 'state' || changing.has(fact)) && dice.chance(fact === 'class' && isConditional ? 2 : 3),
  );
  // Mostly an action that the request needs, so that most refusals have one reason.
  const deny = () => dice.pick(dice.chance(3) ? denied : needsOf(request, chosen));
  const isNew = request === 'object' || request === 'upload';
  return {
    caller: dice.pick<Caller>(['bob', 'bob', 'bob', 'bob', 'bob', 'alice', 'anonymous']),
    request,
    facts: chosen,
    policy: {
      allow: further.filter(() => !dice.chance(3)),
      ...(isConditional
        ? { deny: ['s3:PutObject'], when: { 's3:x-amz-storage-class': storageClass } }
        : { deny: dice.chance(3) ? [] : [...new Set(dice.several([1, 2], deny))] }),
    },
    invalid:
      isNew && dice.chance(8) ? dice.pick(Object.keys(invalids) as (keyof typeof invalids)[]) : undefined,
  };
}

/** Each need of each fact, denied alone. */
const denials: readonly Sending[] = requests.flatMap((request) =>
  facts
    .filter((fact) => request !== 'state' || changing.has(fact))
    .flatMap((fact) =>
      needsOf(request, [fact]).map(
        (action): Sending => ({
          ...{ caller: 'bob', request, facts: [fact] },
          policy: { allow: further, deny: [action] },
        }),
      ),
    ),
);

function cellOf(sending: Sending): Cell {
  const { caller, request, facts: chosen, policy, invalid } = sending;
  const allowed = invalid === undefined && isAllowed(caller, request, { policy, facts: chosen });
  serial += 1;
  const key = `key-${serial}`;
  let before: unknown;
  return {
    name: `${caller} sends ${request} with ${invalid ?? chosen.join()}; allow ${policy.allow.join()}, deny ${policy.deny.join()}${policy.when ? ' of the class' : ''}`,
    isAllowed: allowed,
    async send() {
      world.clock.jump(1000);
      const version = versionAt(world.clock.now() - 500);
      const made = { ...documentOf(chosen), version };
      const more =
        invalid === undefined ? made : { ...made, headers: { ...made.headers, ...invalids[invalid] } };
      return sendAs({ ...sending, key, document: written('x', more) }, (state) => {
        before = state;
      });
    },
    async check() {
      if (!allowed) expect([key, await factsOf(key)]).toEqual([key, before]);
      if (request !== 'object' || caller !== 'bob' || invalid !== undefined) return;
      const twin = await world.bob.put(`/bucket/${key}-twin`, { body: 'x', headers: headersOf(chosen) });
      const isTwinDone = isTwinAllowed(chosen, policy);
      const expected = isTwinDone ? [200, ''] : [403, 'AccessDenied'];
      expect([chosen, policy, twin.status, twin.code]).toEqual([chosen, policy, ...expected]);
      expect(isTwinDone || !allowed).toBe(true);
    },
  };
}

async function sendAs(
  {
    caller,
    request,
    key,
    policy,
    document,
  }: Sending & { readonly key: string; readonly document: ReplicaDocument },
  keep: (state: unknown) => void,
): Promise<Answer> {
  const client = clientOf(caller);
  const path = `/bucket/${key}`;
  const isLater = request === 'state' || request === 'removal';
  const first = { ...document, acl: undefined, lock: undefined, headers: {}, storageClass: 'STANDARD' };
  const { acl: _, lock: __, ...bare } = first;
  if (isLater) {
    const sent = await sendObject(world.client, path, bare, 'x');
    expect(sent.status, sent.text).toBe(200);
  }
  if (request === 'marker') await world.client.put(path, { body: 'x' });
  await setPolicy(policy);
  keep(await factsOf(key));
  world.clock.jump(1000);
  const stamp = `${versionAt(world.clock.now()).slice(0, 16)}-far`;
  switch (request) {
    case 'object':
      return sendObject(client, path, document, 'x');
    case 'upload':
      return client.post(`${path}?uploads&replica=${document.version}`, { body: JSON.stringify(document) });
    case 'state':
      return sendState(client, path, { ...document, storageClass: 'STANDARD', stamp });
    case 'removal':
      return client.delete(`${path}?replica=${document.version}`);
    case 'marker': {
      const version = versionAt(world.clock.now());
      return sendState(client, path, written('', { version, marker: true, etag: '', storageClass: '' }));
    }
  }
}

test('a document does what its sender could do with the headers and requests that it stands for, and nothing else', async () => {
  world = await openLocked();
  onTestFinished(() => world.close());
  for (const sending of denials) {
    const cell = cellOf(sending);
    const { status, code, text } = await cell.send();
    expect([cell.name, status, code], text).toEqual([cell.name, 403, 'AccessDenied']);
    await cell.check?.({ status, code, text } as Answer);
  }
  await sampleMatrix(350, requests, (dice, request) => cellOf(drawSending(dice, request as Request)));
});

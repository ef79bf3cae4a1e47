/**
 * ExplainDecision and ExplainDecisions: may a caller do something, and which statement decides it, by what is stored
 * and with a draft? Nothing is executed.
 */
import { authorizeAdmin, isGrantable } from '../../auth/administer.ts';
import { type Caller, denialText, evaluatePolicies, type Question, verdictOn } from '../../auth/authorize.ts';
import { accessPointFacts, bucketPolicyName } from '../../auth/bucket-policy.ts';
import type { Identity } from '../../auth/identity.ts';
import { type BroughtPolicies, hasPolicy, readPolicies } from '../../auth/identity-policies.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import type { TraceEntry } from '../../auth/policy/evaluate.ts';
import type { Facts } from '../../auth/policy/request.ts';
import { principalOf, recordedArn } from '../../auth/principal.ts';
import { roleCaller, userCaller } from '../../auth/session/account-keys.ts';
import { storageOnlyPolicy } from '../../auth/session/sessions.ts';
import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openAccessPoint } from '../../domain/access/access-points.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { inParallelTurns } from '../../domain/common/turns.ts';
import { ofOneState } from '../../domain/iam/account.ts';
import { findNamed, isSessionKey } from '../../domain/iam/entities.ts';
import { lookUpVersion } from '../../domain/objects/read-object.ts';
import { findAudit } from '../../metadata/audit.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';
import type { AuditedSession, AuditRow } from '../../metadata/records/audit.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { policyTextMax } from '../../protocol/admin/iam.ts';
import { type AdminBody, adminPrefix, describeAdminOperation } from '../../protocol/admin/operations.ts';
import { parseArn } from '../../protocol/arns.ts';
import { describeOperation, isOperation } from '../../protocol/operations/operations.ts';
import { defined } from '../../request/parameters.ts';
import { type AdminHandler, jsonReply, openCallTurns } from './call.ts';
import { type Fields, isOwnRequest, namedResources } from './named-resources.ts';

export const ExplainDecision: AdminHandler<'ExplainDecision'> = async (ctx, call) => {
  const { body, permit, caller } = call;
  const { requestId, draft, ...input } = body;
  const past =
    requestId === undefined ? undefined : await findRequest(ctx, requestId, openCallTurns(ctx, call));
  const isOfAnother = input.accessKey !== undefined || input.principal !== undefined;
  const { action, ...about } = { ...past?.asked, ...(isOfAnother ? {} : past?.by), ...defined(input) };
  if (action === undefined)
    throw fail('MalformedJSON', {
      message: 'action is missing, or requestId of an audited request.',
      field: 'action',
    });
  if (past !== undefined) {
    // The reply shows the row, whatever the question replaces of it.
    await permit({ bucket: past.asked.bucket ?? '', ...past.by });
    await permit(defined({ bucket: about.bucket, accessKey: about.accessKey, principal: about.principal }));
  }
  const open = await openQuestion(ctx, { ...about, action });
  const session = isOfAnother ? undefined : past?.session;
  const asked = session === undefined ? open : { ...open, identity: inSession(open.identity, session) };
  await assertMaySimulate(ctx, caller, asked.identity);
  const supposed = draft && (await readDraft(ctx, draft, asked));
  const trace: TraceEntry[] = [];
  const tried: TraceEntry[] = [];
  const decision = await decide(ctx, asked, {}, trace);
  const missing = isOfAnother || past === undefined ? [] : explainGaps(past, decision);
  return jsonReply({
    ...decision,
    statements: trace,
    ...describeCaller(asked.identity),
    ...(supposed === undefined
      ? {}
      : { draft: { ...(await decide(ctx, asked, supposed, tried)), statements: tried } }),
    ...(missing.length === 0 ? {} : { missing }),
    request: past?.described,
  });
};

/** Questions that are answered at the same time. */
const questionsAtOnce = 8;

export const ExplainDecisions: AdminHandler<'ExplainDecisions'> = async (ctx, call) => {
  const { body, caller } = call;
  const row = describeAdminOperation('ExplainDecision');
  const rest = openCallTurns(ctx, call, { isParallel: true });
  /** Many questions of a page are about the same bucket and the same few callers. */
  const permits = new Map<string, Promise<void>>();
  const permit = (about: { readonly [field: string]: string }): Promise<void> => {
    const name = JSON.stringify(about);
    const found = permits.get(name) ?? assertMayExplain(ctx, caller, { row, about });
    permits.set(name, found);
    return found;
  };
  const answer = async (question: Asked) => {
    const { bucket, accessKey, principal } = question;
    await permit(defined({ bucket, accessKey, principal }));
    const asked = await openQuestion(ctx, question);
    await assertMaySimulate(ctx, caller, asked.identity);
    return { ...(await decide(ctx, asked)), ...describeCaller(asked.identity) };
  };
  return jsonReply({
    answers: await inParallelTurns({ limit: questionsAtOnce, rest }, body.questions, (question) =>
      answer(question).catch((cause: unknown) => {
        if (!(cause instanceof Refusal) || cause.code === 'InternalError') throw cause;
        return { refused: { code: cause.code, message: cause.message } };
      }),
    ),
  });
};

/** @throws AccessDenied where the policies of the caller do not allow it to ask so */
async function assertMayExplain(
  ctx: Context,
  caller: Caller,
  { row, about }: { readonly row: ReturnType<typeof describeAdminOperation>; readonly about: Fields },
): Promise<void> {
  const fields = { own: caller.identity?.owner, ...about };
  const named = await namedResources(ctx, row, fields);
  const isOwn = await isOwnRequest(ctx, row, { identity: caller.identity, fields });
  await authorizeAdmin(
    ctx,
    { ...caller, operation: 'ExplainDecision' },
    { action: 'admin:ExplainDecision', path: row.path.slice(adminPrefix.length + 1), named, isOwn },
  );
}

/**
 * A tenant that asks about another principal of its account needs what the IAM protocol asks for the same: the answer shows what policies
 * that principal has.
 * @throws AccessDenied
 */
async function assertMaySimulate(ctx: Context, caller: Caller, asked: Identity): Promise<void> {
  const { identity } = caller;
  if (identity === undefined) throw fail('AccessDenied');
  if (asked === undefined || (await isGrantable(ctx, identity))) return;
  const { arn } = principalOf(asked);
  const own = principalOf(identity);
  if (arn === own.arn) return;
  const action = 'iam:SimulatePrincipalPolicy';
  const verdict = await verdictOn(ctx, caller, { action, bucketName: '', key: '', resource: arn });
  if (verdict.allowed) return;
  throw fail('AccessDenied', denialText({ principal: own, action, resource: `"${arn}"`, verdict }));
}

type Asked = AdminBody<'ExplainDecisions'>['questions'][number];

/** What the engine is asked, with what a question leaves to be found. */
interface OpenQuestion {
  readonly identity: Identity;
  readonly bucketName: string;
  readonly question: Question;
  readonly facts: Facts;
}

/** @throws InvalidArgument for a caller that does not exist; NoSuchBucket, NoSuchAccessPoint */
async function openQuestion(ctx: Context, asked: Asked): Promise<OpenQuestion> {
  const { action, bucket: bucketName = '', key = '', versionId, context, resource } = asked;
  const bucket = bucketName === '' ? undefined : await openBucket(ctx, bucketName);
  const target =
    bucket === undefined || key === '' ? undefined : await lookUpVersion(ctx, bucket, { key, versionId });
  const accessPoint = await findAttached(ctx, bucket, asked.accessPoint);
  const ofPoint = accessPoint === undefined ? undefined : accessPointFacts(accessPoint);
  const about = { action, bucket, bucketName, key, target, accessPoint };
  return {
    identity: await findIdentity(ctx, asked),
    bucketName,
    question: { ...about, ...(resource === undefined ? {} : { resource }) },
    facts: { lookup: (name) => context?.get(name) ?? ofPoint?.get(name) },
  };
}

/** @throws InvalidArgument without a bucket; NoSuchAccessPoint, also for one of another bucket */
async function findAttached(
  ctx: Context,
  bucket: BucketRow | undefined,
  name: string | undefined,
): Promise<AccessPointRow | undefined> {
  if (name === undefined) return undefined;
  if (bucket === undefined)
    throw fail('InvalidArgument', { message: 'An access point needs its bucket.', field: 'accessPoint' });
  const { row } = await openAccessPoint(ctx, bucket.owner, name);
  if (row.bucketId !== bucket.id) throw fail('NoSuchAccessPoint', { elements: { AccessPointName: name } });
  return row;
}

async function decide(
  ctx: Context,
  { identity, question, facts }: OpenQuestion,
  supposed: Supposed = {},
  trace: TraceEntry[] = [],
) {
  const { allowed, reason, by } = await evaluatePolicies(
    ctx,
    identity,
    { ...question, ...supposed },
    { facts, trace },
  );
  return { allowed, reason, by };
}

type Supposed = Pick<Question, 'policy' | 'callersPolicy'>;
type Draft = NonNullable<AdminBody<'ExplainDecision'>['draft']>;

function describeCaller(identity: Identity) {
  if (identity === undefined) return {};
  return { caller: { account: identity.owner, principal: recordedArn(identity) } };
}

/**
 * A document that would be refused when it is saved is refused here too, apart from the size limit of its kind.
 * @throws MalformedPolicy; InvalidArgument where no policy of the question has its name
 */
async function readDraft(
  ctx: Context,
  { policy: name, document: text, isNew = false }: Draft,
  { identity, bucketName }: Pick<OpenQuestion, 'identity' | 'bucketName'>,
): Promise<Supposed> {
  if (name === bucketPolicyName) {
    if (bucketName === '')
      throw fail('InvalidArgument', { message: 'A bucket policy needs a bucket.', field: 'bucket' });
    return { policy: { name, document: parsePolicy(text, { kind: 'bucket', bucket: bucketName }) } };
  }
  const brought = await readPolicies(ctx, identity);
  if (!isNew && !hasPolicy(brought, name))
    throw fail('InvalidArgument', {
      message: `The caller has no policy "${name}": its policies are ${listNames(brought)}. isNew supposes one more.`,
      field: 'draft',
    });
  const document = parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  return { callersPolicy: { name, document } };
}

const listNames = ({ identity, boundary = [], session = [] }: BroughtPolicies): string => {
  const names = new Set([...identity, ...boundary, ...session].map(({ name }) => `"${name}"`));
  return names.size === 0 ? 'none' : [...names].join(', ');
};

/**
 * What a past request asked for, from its audit row. The present policies judge it, with the facts that the row has.
 * @throws InvalidArgument where the log has no such request
 */
async function findRequest(ctx: Context, requestId: string, rest: () => Promise<void>) {
  const now = ctx.clock.now();
  const span = { start: now - ctx.config.SVC_AUDIT_RETENTION, end: now };
  const { row, gaveUpAt } = await findAudit(ctx.metadata, { ...span, rest, requestId });
  if (row === undefined)
    throw fail('InvalidArgument', {
      message:
        gaveUpAt === undefined
          ? `The audit log has no request ${requestId}: it has requests that change something, and not those that read.`
          : `The audit log has no request ${requestId} since ${new Date(gaveUpAt).toISOString()}. Find an older one with GET /admin/v1/audit?requestId=${requestId}&end=${new Date(gaveUpAt).toISOString()}, and give its accessKey, action, bucket and key instead.`,
      field: 'requestId',
    });
  const { action, resource, key, accessKey, principal, status, error, time, source, session } = row;
  const bucket = resource.startsWith('bucket:') ? resource.slice('bucket:'.length) : undefined;
  // An action of the operator API may be qualified: `admin:PutBucketConfiguration/cors`.
  const [named = ''] = action.split('/');
  const permitted = isOperation(action) ? describeOperation(action).action : named;
  const about = {
    ...(bucket === undefined ? {} : { bucket }),
    ...(key === undefined ? {} : { key }),
  };
  const context = new Map([['aws:SourceIp', source]]);
  if (session !== undefined) context.set('aws:MultiFactorAuthPresent', String(session.isMfa === true));
  return {
    asked: { ...about, action: permitted, context },
    by: callerOfRow(ctx, row),
    missing: listMissing(ctx, row),
    session: session && { ...session, row },
    described: {
      time: new Date(time).toISOString(),
      action,
      status,
      ...(error === undefined ? {} : { error }),
      ...(principal === undefined ? {} : { principal }),
      ...(accessKey === undefined ? {} : { accessKey }),
      ...about,
      ...(session === undefined ? {} : { session }),
    },
  };
}

type Row = Pick<AuditRow, 'id' | 'accessKey' | 'principal' | 'session'>;

/**
 * Whether a row is of temporary credentials, but has no session: it was written before audit rows had one. The settings
 * may have a permanent key with the prefix of temporary ones.
 */
const lacksSession = ({ credentials }: Context, { accessKey, session }: Row): boolean =>
  session === undefined &&
  accessKey !== undefined &&
  isSessionKey(accessKey) &&
  !credentials.isConfigured(accessKey);

/** How a question names the caller of a row. Temporary credentials are not found by their access key without their token. */
function callerOfRow(ctx: Context, row: Row) {
  const { accessKey, principal, session } = row;
  if (session?.parentKey !== undefined) return { accessKey: session.parentKey };
  if (accessKey === undefined) return {};
  const isTemporary = session !== undefined || lacksSession(ctx, row);
  return isTemporary && principal !== undefined ? { principal } : { accessKey };
}

/** Also the further action of a request that was refused, where nothing else tells why its operation alone is allowed. */
function explainGaps(
  { missing, described }: Pick<Awaited<ReturnType<typeof findRequest>>, 'missing' | 'described'>,
  { allowed }: { readonly allowed: boolean },
) {
  const isUnexplained = allowed && described.error === 'AccessDenied' && missing.length === 0;
  return isUnexplained ? (['further-action'] as const) : missing;
}

/** What the row does not have of a session, and the answer leaves out. */
function listMissing(ctx: Context, row: Row) {
  const { session } = row;
  if (session === undefined) return lacksSession(ctx, row) ? (['session'] as const) : [];
  return [
    ...(session.policySha256 === undefined ? [] : (['session-policy'] as const)),
    ...(session.isTagged === undefined ? [] : (['session-tags'] as const)),
  ];
}

/** The caller as the temporary credentials of the row limited it, apart from what the row does not have. */
function inSession(
  identity: Identity,
  { row, isOfLogin, managed }: AuditedSession & { readonly row: Row },
): Identity {
  if (identity === undefined) return undefined;
  return {
    ...identity,
    // Policies of sessions are cached by their access key. The text of this one may be unknown, so it must not take the
    // place of the real one.
    accessKey: `${row.accessKey} ${row.id}`,
    operator: identity.operator && isOfLogin !== true,
    session: {
      issuedAt: 0,
      expires: Number.MAX_SAFE_INTEGER,
      ...(isOfLogin === true ? { inline: storageOnlyPolicy } : {}),
      ...(managed === undefined ? {} : { managed }),
    },
  };
}

/** @throws InvalidArgument for a caller that does not exist */
async function findIdentity(
  ctx: Context,
  { accessKey, principal }: Pick<Asked, 'accessKey' | 'principal'>,
): Promise<Identity> {
  if (principal !== undefined) {
    if (accessKey !== undefined)
      throw fail('InvalidArgument', {
        message: 'Give either accessKey or principal: both name the caller.',
        field: 'principal',
      });
    return findPrincipal(ctx, principal);
  }
  if (accessKey === undefined) return undefined;
  const found = await ctx.credentials.find(accessKey);
  // Not InvalidAccessKeyId, which clients show as a problem of the key that signed the question.
  if (found === undefined)
    throw fail('InvalidArgument', {
      message: `No account and no user has an active access key "${accessKey}". It may be deleted, inactive or of temporary credentials. Give another accessKey, or ask about an anonymous caller with neither accessKey nor requestId.`,
      field: 'accessKey',
    });
  const { secretKey: _, ...identity } = found;
  return identity;
}

/** The caller that an ARN names, as it would be with a key of its own. Roots and users need no key to be asked about. */
async function findPrincipal(ctx: Context, arn: string): Promise<Identity> {
  const { metadata, credentials } = ctx;
  const [, root] = /^arn:aws:iam::([^:/]+):root$/.exec(arn) ?? [];
  const [, sessionAccount, sessionRole = '', sessionName = sessionOfQuestion] =
    /^arn:aws:sts::([^:/]+):assumed-role\/([^/]+)\/([^/]+)$/.exec(arn) ?? [];
  const named = parseArn(arn);
  const owner = root ?? sessionAccount ?? named?.account ?? '';
  const account = owner === '' ? undefined : await credentials.account({ owner });
  const absent = fail('InvalidArgument', {
    message: `There is no root, user or role "${arn}". Its ARN is arn:aws:iam::ACCOUNT:root, …:user/NAME or …:role/NAME, or arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION.`,
    field: 'principal',
  });
  if (account === undefined) throw absent;
  const common = { accessKey: '', owner, displayName: account.displayName, root: root !== undefined };
  if (root !== undefined) return { ...common, operator: account.isOperators === true };
  const { revision = '', value } = await ofOneState({ metadata }, owner, async () => {
    const { kind, name } =
      sessionAccount === undefined ? (named ?? { kind: '', name: '' }) : { kind: 'role', name: sessionRole };
    const user = kind === 'user' ? await findNamed(ctx, owner, { kind: 'user', name }) : undefined;
    const role = kind === 'role' ? await findNamed(ctx, owner, { kind: 'role', name }) : undefined;
    if (user !== undefined) return { id: user.id, caller: userCaller(owner, user) };
    if (role === undefined) return undefined;
    return { id: role.id, caller: roleCaller(owner, role, { name: sessionName, tags: [] }) };
  });
  const found = sessionAccount === undefined ? value?.caller.arn : value?.caller.sessionArn;
  if (value === undefined || found !== arn) throw absent;
  return { ...common, operator: false, caller: value.caller, iam: { id: value.id, revision } };
}

/** The name of the session in which a role is asked about. */
const sessionOfQuestion = 'why';

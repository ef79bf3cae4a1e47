/** Log-ins: of the cookie, of the caller itself, and of all callers; the temporary credentials of a log-in; what pages read. */
import { adminRefusal, isGrantable } from '../../auth/administer.ts';
import { type Caller, verdictOn } from '../../auth/authorize.ts';
import { callerOf, recordedArn } from '../../auth/principal.ts';
import {
  clearCookie,
  deriveCsrfToken,
  endLogin,
  endLogins,
  findLoggedIn,
  type LoggedIn,
  listLogins,
  logIn,
  noLogin,
  readToken,
  setCookie,
} from '../../auth/session/logins.ts';
import { issueSession, storageOnlyPolicy } from '../../auth/session/sessions.ts';
import { asTheyEnd } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { lookUpBucket } from '../../domain/common/buckets.ts';
import { inParallelTurns } from '../../domain/common/turns.ts';
import type { LoginRow } from '../../metadata/logins.ts';
import {
  type AdminOperationName,
  adminOperations,
  adminPrefix,
  describeAdminOperation,
} from '../../protocol/admin/operations.ts';
import type { AdminOperation } from '../../protocol/admin/row.ts';
import { fillPath } from '../../protocol/admin-target.ts';
import { renderRefusal } from '../../protocol/render.ts';
import { toFailure } from '../../request/failure.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, type AdminRequest, computeEtag, jsonReply, openCallTurns } from './call.ts';
import { type Fields, isOwnRequest, namedResources } from './named-resources.ts';

/** A form of another origin can send any other type of body without asking this gateway first. */
function assertJson({ wire }: Pick<AdminRequest, 'wire'>): void {
  if (!/^application\/json\b/i.test(wire.headers.get('content-type') ?? ''))
    throw fail('InvalidRequest', 'A log-in must have the Content-Type application/json.');
}

const iso = (ms: number): string => new Date(ms).toISOString();

const describeSession = async (ctx: Context, { token, login, identity }: LoggedIn) => ({
  accessKey: login.accessKey,
  account: login.account,
  principal: login.principal,
  isOperator: await isGrantable(ctx, identity),
  csrfToken: deriveCsrfToken(ctx.hasher, token),
  expiresAt: iso(login.expiresAt),
  idleSeconds: Math.floor(ctx.config.SVC_LOGIN_IDLE / 1000),
});

export const LogIn: AdminHandler<'LogIn'> = async (ctx, request) => {
  assertJson(request);
  const { wire, body, record } = request;
  const agent = wire.headers.get('user-agent') ?? '';
  const asked = { ...body, source: wire.remote, agent };
  const loggedIn = await logIn(ctx, asked, record);
  const maxAgeS = Math.floor(ctx.config.SVC_LOGIN_TTL / 1000);
  return withCookie(
    jsonReply(await describeSession(ctx, loggedIn)),
    setCookie(loggedIn.token, { secure: wire.secure, maxAgeS }),
  );
};

const withCookie = <T extends ReturnType<typeof jsonReply>>(reply: T, cookie: string): T => ({
  ...reply,
  headers: [...reply.headers, ['Set-Cookie', cookie] as const],
});

/** For a caller that signs: who it is, without the parts that belong to a log-in. */
export const GetSession: AdminHandler<'GetSession'> = async (ctx, { wire, identity }) => {
  const loggedIn = await findOwn(ctx, wire);
  if (loggedIn !== undefined) return jsonReply(await describeSession(ctx, loggedIn));
  if (identity === undefined) throw fail('AccessDenied');
  return jsonReply({
    accessKey: identity.accessKey,
    account: identity.owner,
    principal: recordedArn(identity),
    isOperator: await isGrantable(ctx, identity),
  });
};

/** The log-in of the request's cookie. A signature takes precedence over a cookie. */
async function findOwn(ctx: Context, wire: AdminRequest['wire']): Promise<LoggedIn | undefined> {
  const token = wire.headers.get('authorization') === undefined ? readToken(wire) : undefined;
  return token === undefined ? undefined : findLoggedIn(ctx, token);
}

export const LogOut: AdminHandler<'LogOut'> = async (ctx, { wire, record }) => {
  const own = await findOwn(ctx, wire);
  if (own === undefined) throw fail('NotFound', 'The request has no cookie of a log-in.');
  await endLogin(ctx, own.login.id, { record });
  return { status: 204, headers: [['Set-Cookie', clearCookie(wire.secure)]] };
};

const credentialsSeconds = 900;

/** What pages sign requests of the storage protocol with; a page asks again while it is in use. */
export const CreateSessionCredentials: AdminHandler<'CreateSessionCredentials'> = async (ctx, { wire }) => {
  const own = await findOwn(ctx, wire);
  if (own === undefined) throw fail('NotFound', 'The request has no cookie of a log-in.');
  const { iam, owner, accessKey } = own.identity;
  const { claims, issued: issuedSession } = await issueSession(ctx, {
    account: owner,
    of: iam === undefined ? { configured: accessKey } : { user: iam.id },
    seconds: credentialsSeconds,
    inline: storageOnlyPolicy,
    login: own.login.id,
  });
  return jsonReply({
    accessKey: issuedSession.AccessKeyId,
    secretKey: issuedSession.SecretAccessKey,
    sessionToken: issuedSession.SessionToken,
    expiresAt: iso(claims.expires),
    region: ctx.config.SVC_REGION,
  });
};

const describeLogin = ({ id, accessKey, account, principal, ...login }: LoginRow) => ({
  ...{ id, accessKey, account, principal },
  createdAt: iso(login.createdAt),
  seenAt: iso(login.seenAt),
  expiresAt: iso(login.expiresAt),
  source: login.source,
  agent: login.agent,
});

/**
 * Who may see and end log-ins as their own: all that this caller began, with whichever of its keys. @throws
 * AccessDenied for a session, because it ends by itself and must not end what outlives it
 */
function assertOwner({ identity }: Pick<AdminRequest, 'identity'>): Pick<LoginRow, 'account' | 'principal'> {
  if (identity === undefined) throw fail('AccessDenied');
  if (callerOf(identity).kind === 'session' || identity.session !== undefined)
    throw fail('AccessDenied', 'Temporary credentials have no log-ins of their own.');
  return { account: identity.owner, principal: recordedArn(identity) };
}

const belongsTo = (login: LoginRow, owner: Pick<LoginRow, 'account' | 'principal'>): boolean =>
  login.account === owner.account && login.principal === owner.principal;

export const ListOwnLogins: AdminHandler<'ListOwnLogins'> = async (ctx, call) => {
  const owner = assertOwner(call);
  const current = (await findOwn(ctx, call.wire))?.login.id;
  const logins = (await listLogins(ctx)).filter((login) => belongsTo(login, owner));
  return jsonReply({
    logins: logins.map((login) => ({ ...describeLogin(login), isCurrent: login.id === current })),
  });
};

/** A log-in of another caller is answered as one that does not exist. */
export const RevokeOwnLogin: AdminHandler<'RevokeOwnLogin'> = async (ctx, call) => {
  const owner = assertOwner(call);
  const id = call.params.get('id') ?? '';
  call.record?.about(owner.principal);
  await endLogin(ctx, id, {
    record: call.record,
    denialOf: async (login) => (belongsTo(login, owner) ? undefined : noLogin(id)),
  });
  return emptyReply(204);
};

export const ListLogins: AdminHandler<'ListLogins'> = async (ctx, { query }) =>
  jsonReply({ logins: (await listLogins(ctx, { accessKey: query.accessKey })).map(describeLogin) });

export const RevokeLogin: AdminHandler<'RevokeLogin'> = async (ctx, { params, record, entries }) => {
  await endLogin(ctx, params.get('id') ?? '', {
    record,
    denialOf: (login) => entries.denialOf('logins', login),
  });
  return emptyReply(204);
};

/** Of one access key, or all of them. */
export const RevokeLogins: AdminHandler<'RevokeLogins'> = async (ctx, { query, record, entries }) => {
  const findLoginDenial = (login: LoginRow) => entries.denialOf('logins', login);
  return jsonReply({
    revoked: await endLogins(ctx, { accessKey: query.accessKey }, { record, denialOf: findLoginDenial }),
  });
};

// CheckPermissions: what policies allow to the caller itself, for pages that offer only what is allowed.

type Question = AdminRequest<'CheckPermissions'>['body']['questions'][number];

/** Questions that are answered at the same time. */
const questionsAtOnce = 8;

export const CheckPermissions: AdminHandler<'CheckPermissions'> = async (ctx, call) => {
  const { body, caller } = call;
  const rest = openCallTurns(ctx, call, { isParallel: true });
  return jsonReply({
    answers: await inParallelTurns({ limit: questionsAtOnce, rest }, body.questions, (question, index) =>
      question.action.startsWith('admin:')
        ? answerAdmin(ctx, caller, { ...question, at: `questions[${index}].action` })
        : answerOther(ctx, caller, question),
    ),
  });
};

const isAdminOperation = (name: string): name is AdminOperationName => Object.hasOwn(adminOperations, name);

/** A parameter that the question leaves open is `*`: a policy that allows the operation on everything below allows that too. */
async function answerAdmin(
  ctx: Context,
  caller: Caller,
  { action, bucket, path, at }: Question & { readonly at: string },
) {
  const name = action.slice('admin:'.length);
  if (!isAdminOperation(name))
    throw fail('InvalidArgument', { message: `There is no operation ${name}.`, field: at });
  const row = describeAdminOperation(name);
  if (row.callers !== undefined) return { allowed: true };
  const filled = fillPath(row.path.slice(adminPrefix.length + 1), {
    get: (part) => exampleValue(row.tag, part, bucket),
  });
  const fields = { own: caller.identity?.owner, ...(bucket === undefined ? {} : { bucket, name: bucket }) };
  const named = await namedResources(ctx, row, fields);
  // What is the caller's own account need not be named.
  const isOwn = await isOwnRequest(ctx, row, { identity: caller.identity, fields: ownFields(row, fields) });
  const asked = { action, path: path ?? filled, named, isOwn };
  const refusal = await adminRefusal(ctx, { ...caller, operation: name }, asked);
  return refusal === undefined ? { allowed: true } : { allowed: false, reason: refusal.message };
}

/** Operations about an account are asked about for the caller's own, unless a bucket decides. */
const ownFields = ({ tenants }: Pick<AdminOperation, 'tenants'>, fields: Fields): Fields =>
  tenants !== undefined && 'account' in tenants ? { ...fields, [tenants.account]: fields['own'] } : fields;

/** The bucket where the path names one, else everything. */
const exampleValue = (tag: string, part: string, bucket = '*'): string =>
  part === 'bucket' || (part === 'name' && tag === 'buckets') ? bucket : '*';

async function answerOther(
  ctx: Context,
  caller: Caller,
  { action, bucket: bucketName = '', key = '', resource }: Question,
) {
  const bucket = bucketName === '' ? undefined : await lookUpBucket(ctx, bucketName);
  const { allowed, reason } = await verdictOn(ctx, caller, {
    action,
    bucket,
    bucketName,
    key,
    ...(resource === undefined ? {} : { resource }),
  });
  if (allowed) return { allowed };
  // As the storage protocol refuses it: another account learns nothing of the policies of a bucket.
  const { identity } = caller;
  const isOthers = bucket !== undefined && bucket.owner !== identity?.owner;
  const isHidden = isOthers && (identity === undefined || !(await isGrantable(ctx, identity)));
  return isHidden ? { allowed } : { allowed, reason };
}

// BatchRead: what a page shows comes in one request, each part as soon as it has been read.

type BatchedRead = AdminRequest<'BatchRead'>['body']['reads'][number];

/** Parts that are read at the same time. */
const readsAtOnce = 8;
const utf8 = new TextEncoder();

export const BatchRead: AdminHandler<'BatchRead'> = async (ctx, call) => ({
  status: 200,
  headers: [
    ['Content-Type', 'application/x-ndjson'],
    ['Cache-Control', 'no-store'],
  ],
  body: asTheyEnd(readsAtOnce, call.body.reads, async (read, index) =>
    utf8.encode(await answerRead(ctx, call, { read, index })),
  ),
});

/** `reply` and `error` are texts of JSON already. */
async function answerRead(
  ctx: Context,
  call: AdminRequest<'BatchRead'>,
  { read, index }: { readonly read: BatchedRead; readonly index: number },
): Promise<string> {
  try {
    call.signal.throwIfAborted();
    const { status, body } = await call.read(read);
    const text = typeof body === 'string' ? body : 'null';
    const etag = computeEtag(ctx, text);
    if (etag === read.etag) return batchLine({ index, status: 304, etag });
    return batchLine({ index, status, etag }, 'reply', text);
  } catch (cause) {
    const { refusal, level, message, fields } = toFailure(cause, call.signal);
    const { requestId } = call;
    const about = { request_id: requestId, operation: `admin:${read.operation}`, code: refusal.code };
    const kind = `BatchRead ${read.operation} ${refusal.code}`;
    ctx.telemetry.log(level, message, { ...about, ...fields }, kind, call.identity?.owner);
    const failed = { requestId, resource: '', isHead: false, format: 'json' } as const;
    const { status, body } = renderRefusal(refusal, failed);
    return batchLine({ index, status }, 'error', String(body));
  }
}

const batchLine = (head: object, name?: 'reply' | 'error', text = ''): string =>
  name === undefined
    ? `${JSON.stringify(head)}\n`
    : `${JSON.stringify(head).slice(0, -1)},"${name}":${text}}\n`;

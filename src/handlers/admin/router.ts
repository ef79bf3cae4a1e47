/** The operator API: registers it on a router, a row of its table at a time, and decides who may call it. */
import { authorizeAdmin, ungrantable } from '../../auth/administer.ts';
import { explainRefusal } from '../../auth/authorize.ts';
import { recordedArn } from '../../auth/principal.ts';
import { fail, Refusal } from '../../base/errors.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Json } from '../../base/text/strict-json.ts';
import type { Context } from '../../context.ts';
import {
  countKeys,
  findAnswer,
  type IdempotencyRow,
  keysOfAccountMax,
  putAnswer,
  removeAnswer,
} from '../../metadata/idempotency.ts';
import { commitLimits } from '../../ports/metadata-store.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
  isBatchable,
} from '../../protocol/admin/operations.ts';
import type { AdminOperation } from '../../protocol/admin/row.ts';
import { type AdminTarget, matchAdmin, readAdminTarget } from '../../protocol/admin-target.ts';
import { type JsonFields, type JsonReader, jsonObject, readJson } from '../../protocol/formats/json.ts';
import type { Reply } from '../../protocol/reply.ts';
import { isSigningParameter, type Query, type Wire } from '../../protocol/wire.ts';
import type { AdminOperations, AreaRequest, AreaRouter, RoutedRequest } from '../handler.ts';
import {
  type AdminHandler,
  type AdminRequest,
  type AskedRead,
  computeEtag,
  jsonReply,
  readPrecondition,
  withoutDenied,
} from './call.ts';
import { type Fields, isOwnRequest, namedResources, openEntries } from './named-resources.ts';
import { adminHandlers } from './table.ts';

export const adminOperations: AdminOperations = {
  register,
  find(method, path) {
    const match = matchAdmin(method, path);
    if (match === undefined) return undefined;
    const { name, input } = match;
    const target = readAdminTarget(name, input);
    const bucketName = target instanceof Refusal ? '' : target.bucketName;
    return { action: `admin:${name}`, audited: describeAdminOperation(name).audited, bucketName, key: '' };
  },
};

function register(router: AreaRouter): void {
  const taken = new Map<string, string[]>();
  for (const name of adminOperationNames) {
    const { method, path } = describeAdminOperation(name);
    if (taken.has(path)) taken.get(path)?.push(method);
    else taken.set(path, [method]);
    router[method.toLowerCase() as keyof AreaRouter](path, (request, call, view) =>
      run(view, call, { name, request }),
    );
  }
  // After the routes: the first that matches answers.
  for (const [path, methods] of taken) router.all(path, () => refuseMethod(methods));
}

function refuseMethod(methods: readonly string[]): never {
  const allowed = methods.includes('GET') ? ['HEAD', ...methods] : methods;
  throw fail('MethodNotAllowed', { headers: { Allow: allowed.join(', ') } });
}

/** An operation that a request, or a part of BatchRead, asks for: what its path says, before anything is decided. */
interface Asked extends May {
  readonly row: ReturnType<typeof describeAdminOperation>;
  readonly params: ReadonlyMap<string, string>;
  /** What the path names, and whose resources are the caller's own. */
  readonly fields: Fields;
}

const ask = (
  { identity }: AreaRequest,
  { path, params }: AdminTarget,
  operation: Pick<Asked, 'name' | 'row'>,
): Asked => ({ ...operation, path, params, fields: { own: identity?.owner, ...Object.fromEntries(params) } });

/** Query and body, read by the schemas of the row. */
interface Input {
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

/** What differs between a request and a part of BatchRead. */
interface Origin<I extends Input> extends Pick<AdminRequest, 'record' | 'read'> {
  readInput(): Promise<I>;
  precondition(): AdminRequest['match'];
}

/**
 * Authorizes the caller: by the path, before query and body are read, and then by what they name. A caller of a request that changes
 * something is authorized again in any case, because its policies may have changed while the body arrived.
 * @returns the request as the handler gets it
 */
async function admit<I extends Input>(
  ctx: Context,
  call: AreaRequest,
  asked: Asked,
  { readInput, precondition, record, read }: Origin<I>,
): Promise<{ readonly request: AdminRequest; readonly input: I }> {
  const { name, path, row, params, fields } = asked;
  await (isLate(row) ? assertKnown(ctx, call, asked) : assertMayCall(ctx, call, asked));
  const input = await readInput();
  const { query, body } = input;
  const all: Fields = { ...fields, ...query, ...(body as Fields) };
  const permit = (found: Fields) => assertMayCall(ctx, call, { ...asked, fields: { ...all, ...found } });
  const { bucket } = all;
  if (isScoped(row) && typeof bucket === 'string' && bucket !== '') record?.about(`bucket:${bucket}`);
  if (hasNamesInFields(row) || row.method !== 'GET') await permit({});
  const { requestId, identity, wire, signal } = call;
  const caller = call.callerOf(name);
  const request: AdminRequest = {
    ...{ requestId, identity, caller, wire, signal, record, params, permit, read },
    entries: openEntries(ctx, row, { caller, action: `admin:${name}`, path, fields }),
    match: precondition(),
    // The casts: query and body were read by the schemas of this row.
    query: query as never,
    body: body as never,
  };
  return { request, input };
}

async function run(
  ctx: Context,
  call: AreaRequest,
  { name, request: routed }: { readonly name: AdminOperationName; readonly request: RoutedRequest },
) {
  const { wire } = call;
  const row = describeAdminOperation(name);
  const target = readAdminTarget(name, routed.params);
  const isRefused = target instanceof Refusal;
  const bucketName = isRefused ? '' : target.bucketName;
  const record = call.asked(`admin:${name}`, { audited: row.audited, bucketName, recorded: row });
  if (isRefused) throw target;
  // The router ignores slashes at the end: one resource of policies would have several paths.
  if (routed.url.endsWith('/')) throw fail('InvalidURI', 'The path of an operation has no slash at its end.');
  const asked = ask(call, target, { name, row });
  const { request, input } = await admit(ctx, call, asked, {
    record,
    read: (part) => readWithin(ctx, call, part),
    precondition: () => readPrecondition(ctx, wire, row),
    async readInput() {
      const query = readQuery(row.query, call.query);
      const bytes = await call.readBody(row.bodyMax);
      return { query, body: readJson(row.body ?? noFields, bytes), bytes };
    },
  });
  const carryOut = (): Promise<Reply> => perform(ctx, asked, request);
  const key = wire.headers.get('idempotency-key');
  const reply =
    key === undefined
      ? await carryOut()
      : await onceOnly(ctx, describeRepeatable(request, key, { asked, input }), carryOut);
  return row.tagged === true ? withEtag(ctx, reply) : reply;
}

/** Runs the handler for a caller that may call it. */
async function perform(ctx: Context, { name, path, row }: May, request: AdminRequest): Promise<Reply> {
  const handle = adminHandlers[name] as AdminHandler<AdminOperationName>;
  const { identity, entries } = request;
  const reply = await handle(ctx, request).catch((cause: unknown): never => {
    throw explainRefusal(cause, { identity, owner: undefined, action: `admin:${name}`, resource: path });
  });
  return withoutDenied(reply, row, entries);
}

/**
 * A part of BatchRead: authorized as a request of its own, by the same caller. It has no condition and no row of the audit log.
 * @throws InvalidArgument for an operation that is not read in batches
 */
async function readWithin(ctx: Context, call: AreaRequest, part: AskedRead): Promise<Reply> {
  const { operation, path: names = new Map(), query = new Map<string, string>(), body } = part;
  const name = adminOperationNames.find((each) => each === operation);
  if (name === undefined || !isBatchable(name))
    throw fail('InvalidArgument', {
      message: `There is no operation "${operation}" that can be read in a batch.`,
      field: 'operation',
    });
  const row = describeAdminOperation(name);
  const target = readAdminTarget(name, encodeNames(row, names));
  if (target instanceof Refusal) throw target;
  const asked = ask(call, target, { name, row });
  const { request } = await admit(ctx, call, asked, {
    read: () => Promise.reject(fail('InvalidArgument', 'A batch has no batches.')),
    precondition: () => () => undefined,
    readInput: async () => ({
      query: readFields(row.query, query.keys(), query),
      // The cast: the value was read as strict JSON.
      body: (row.body ?? noFields)((body ?? new Map()) as Json, ''),
    }),
  });
  return perform(ctx, asked, request);
}

/** The names of a path as a request would send them. @throws InvalidArgument for one that is missing, or that a path cannot have */
function encodeNames(
  { parameters }: Pick<ReturnType<typeof describeAdminOperation>, 'parameters'>,
  names: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  for (const name of names.keys()) if (!parameters.includes(name)) throw unknown(name, parameters);
  return Object.fromEntries(
    parameters.map((parameter) => {
      const value = names.get(parameter) ?? '';
      if (/^\.{0,2}$/.test(value))
        throw fail('InvalidArgument', {
          message: `path.${parameter} is missing, or no name.`,
          field: parameter,
        });
      return [parameter, encodeURIComponent(value)];
    }),
  );
}

/** The body of such a reply is a text. */
function withEtag(ctx: Context, reply: Reply): Reply {
  return typeof reply.body === 'string'
    ? { ...reply, headers: [...reply.headers, ['ETag', computeEtag(ctx, reply.body)]] }
    : reply;
}

const noFields = jsonObject({});

/** Whether a field limits the request to a resource, so that an Allow of the path alone does not decide. */
const isScoped = ({ names = {} }: Pick<AdminOperation, 'names'>): boolean =>
  Object.values(names).some((named) => 'rule' in named && named.rule === 'scope');

/** Whether query and body are read before the caller is authorized, because they may name what the request is limited to. */
const isLate = (row: Pick<AdminOperation, 'names' | 'tenants'>): boolean =>
  isScoped(row) || row.tenants !== undefined;

/** Whether query and body can name what decides: the caller is authorized with them too. */
const hasNamesInFields = (row: Pick<AdminOperation, 'names' | 'tenants'>): boolean =>
  isLate(row) || row.names !== undefined;

interface May {
  readonly name: AdminOperationName;
  readonly path: string;
  readonly row: Pick<AdminOperation, 'callers' | 'lists' | 'names' | 'tenants'>;
}

/** @throws AccessDenied */
async function assertMayCall(
  ctx: Context,
  call: AreaRequest,
  { name, row, path, fields }: May & { readonly fields: Fields },
): Promise<void> {
  if (row.callers === 'anyone') return assertShort(call.wire);
  if (row.callers === 'known' && call.identity !== undefined) return;
  const named = await namedResources(ctx, row, fields);
  const isOwn = await isOwnRequest(ctx, row, { identity: call.identity, fields });
  await authorizeAdmin(ctx, call.callerOf(name), { action: `admin:${name}`, path, named, isOwn });
}

/** Before the bucket is known that decides. @throws AccessDenied where no policy can allow it */
async function assertKnown(ctx: Context, call: AreaRequest, { name, path, row }: May): Promise<void> {
  if (row.tenants !== undefined && call.identity !== undefined) return;
  const refusal = await ungrantable(ctx, call.callerOf(name), { action: `admin:${name}`, path });
  if (refusal !== undefined) throw refusal;
}

/**
 * The body of an unknown caller is read whole, so it must be short and have a Content-Length. @throws
 * MissingContentLength, EntityTooLarge
 */
function assertShort({ headers }: Wire): void {
  const length = headers.get('content-length');
  if (length === undefined) throw fail('MissingContentLength');
  if (Number(length) > strangersBodyMax)
    throw fail('EntityTooLarge', `The body of this request has at most ${strangersBodyMax} bytes.`);
}
const strangersBodyMax = 4_096;

// Reads the query of an operator's request.

/** @throws InvalidArgument naming the parameter, also for one that the operation does not take, and for one with two values */
function readQuery(fields: JsonFields, query: Query): Readonly<Record<string, unknown>> {
  const ambiguous = query.ambiguousName();
  if (ambiguous !== undefined) throw twice(ambiguous.slice(0, namesMax));
  const own = query.pairs.map(([name]) => name).filter((name) => !isSigningParameter(name));
  return readFields(fields, own, query);
}

function readFields(
  fields: JsonFields,
  names: Iterable<string>,
  query: Pick<Query, 'get'>,
): Readonly<Record<string, unknown>> {
  for (const name of names) if (!Object.hasOwn(fields, name)) throw unknown(name, Object.keys(fields));
  return Object.fromEntries(
    Object.entries(fields).map(([name, reader]) => [name, readParameter(name, reader, query.get(name))]),
  );
}

function readParameter(name: string, reader: JsonReader<unknown>, input: string | undefined): unknown {
  try {
    return reader(input === undefined ? undefined : toJson(reader, input), name);
  } catch (cause) {
    if (cause instanceof Refusal) throw fail('InvalidArgument', cause.details);
    throw cause;
  }
}

/** A number or a boolean as the text of a query writes it; a name without a value is `true`. */
function toJson({ schema }: JsonReader<unknown>, text: string): Json {
  if (schema.type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (schema.type === 'boolean' && (text === '' || text === 'true')) return true;
  if (schema.type === 'boolean' && text === 'false') return false;
  return text;
}

const namesMax = 100;
const twice = (name: string) =>
  fail('InvalidArgument', {
    message: `The parameter "${name}" is given more than once, with different values.`,
    field: name,
  });
const unknown = (name: string, known: readonly string[]) =>
  fail('InvalidArgument', {
    message: `There is no parameter "${name.slice(0, namesMax)}"; ${known.length === 0 ? 'the operation takes none' : `known are ${known.join(', ')}`}.`,
    field: name.slice(0, namesMax),
  });

interface Repeatable {
  /** Its Idempotency-Key. */
  readonly key: string;
  /** The path and the query, decoded. */
  readonly target: string;
  readonly account: string;
  /** The ARN of the caller: an answer is replayed to its own caller only, because policies may hide parts of it from others. */
  readonly principal: string;
  readonly body: Uint8Array;
  readonly row: { readonly method: string; readonly repeatable: boolean };
}

const describeRepeatable = (
  { identity }: AdminRequest,
  key: string,
  {
    asked: { name, path, row },
    input: { query, bytes },
  }: { readonly asked: Asked; readonly input: Input & { readonly bytes: Uint8Array } },
): Repeatable => ({
  key,
  target: JSON.stringify([name, path, query]),
  account: identity?.owner ?? '',
  principal: recordedArn(identity),
  body: bytes,
  row,
});

type AnswersContext = Pick<Context, 'metadata' | 'hasher' | 'telemetry'>;

const retentionMs = 24 * 60 * 60 * 1000;
/** A row also has its id, the request and what the backend adds. */
const bodyMax = commitLimits.rowBytes - 1_024;

/**
 * `Idempotency-Key` of POST requests: a repetition of a request gets the answer of the first, so that a client whose connection broke does
 * not start something twice (docs/adr/0027-the-operator-api-is-one-table.md).
 *
 * Runs the handler, unless the key of the request has an answer.
 * @throws InvalidArgument, IdempotencyKeyReused,
 * OperationAborted, LimitExceeded
 */
async function onceOnly(ctx: AnswersContext, asked: Repeatable, run: () => Promise<Reply>): Promise<Reply> {
  assertKey(asked);
  const row = describe(ctx, asked);
  const stored = { row, account: asked.account };
  const expiresAt = (await ctx.metadata.now()) + retentionMs;
  const revision = await putAnswer(ctx.metadata, stored, { expect: 'absent', expiresAt });
  if (revision === undefined) return replay(ctx, row);
  let reply: Reply;
  let isFull = false;
  try {
    // Counted after the reservation, so that concurrent requests cannot exceed the limit together.
    isFull = (await countKeys(ctx.metadata, asked.account)) > keysOfAccountMax;
    if (isFull) throw tooManyKeys();
    reply = await run();
  } catch (cause) {
    // A refusal is not kept: the client may try again. Another failure leaves the row, because its outcome is unknown.
    if (cause instanceof Refusal) await removeAnswer(ctx.metadata, stored, revision);
    ctx.telemetry.count('svc_idempotency_keys_total', { outcome: isFull ? 'full' : 'not-kept' });
    throw cause;
  }
  const body = typeof reply.body === 'string' ? reply.body : '';
  const isRetained = body.length * 3 <= bodyMax;
  ctx.telemetry.count('svc_idempotency_keys_total', { outcome: isRetained ? 'kept' : 'not-kept' });
  if (!isRetained) await removeAnswer(ctx.metadata, stored, revision);
  else {
    const answered = { ...row, status: reply.status, body };
    await putAnswer(ctx.metadata, { ...stored, row: answered }, { expect: revision, expiresAt });
  }
  return reply;
}

function assertKey({ key, row }: Repeatable): void {
  if (row.method !== 'POST') throw refuse('Only POST requests take an Idempotency-Key.');
  // A kept answer would let its secret be read again, and a kept hash of a body would let its secret be guessed.
  if (!row.repeatable)
    throw refuse(
      'The answer of this operation is not kept, because it has a secret or is a stream: send it without the header.',
    );
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw refuse('Idempotency-Key must be 1 to 255 printable ASCII characters without spaces.');
}

const tooManyKeys = () =>
  fail('LimitExceeded', {
    message: `The account has used ${keysOfAccountMax} values of Idempotency-Key within 24 hours: send the request without the header, or later.`,
    field: 'Idempotency-Key',
  });

const refuse = (message: string) => fail('InvalidArgument', { message, field: 'Idempotency-Key' });

function describe(
  { hasher }: AnswersContext,
  { key, target, account, principal, body }: Repeatable,
): IdempotencyRow {
  const content = toHex(hasher.once('sha256', body));
  return {
    id: hasher.sha256Hex(JSON.stringify([account, principal, key])),
    request: hasher.sha256Hex(JSON.stringify([target, content])),
    status: 0,
    body: '',
  };
}

async function replay({ metadata, telemetry }: AnswersContext, asked: IdempotencyRow): Promise<Reply> {
  const found = (await findAnswer(metadata, asked.id))?.row;
  if (found !== undefined && found.request !== asked.request) {
    telemetry.count('svc_idempotency_keys_total', { outcome: 'other-request' });
    throw fail('IdempotencyKeyReused');
  }
  if (found === undefined || found.status === 0) {
    telemetry.count('svc_idempotency_keys_total', { outcome: 'unanswered' });
    throw fail(
      'OperationAborted',
      'The first request with this Idempotency-Key has no answer yet. GET the state of what it began before another attempt.',
    );
  }
  telemetry.count('svc_idempotency_keys_total', { outcome: 'replayed' });
  const { status, body } = found;
  const replayed = ['Idempotency-Replayed', 'true'] as const;
  if (body === '') return { status, headers: [replayed] };
  const reply = jsonReply(undefined, status);
  return { ...reply, headers: [...reply.headers, replayed], body };
}

/** Registers the operator API on the router, a row of its table at a time, and decides who may call it. */
import type { IRequestStrict, IttyRouterType } from 'itty-router';
import { authorizeAdmin, ungrantable } from '../../auth/authorization/administer.ts';
import { explainRefusal } from '../../auth/explain-refusal.ts';
import { principalOf } from '../../auth/session/principal.ts';
import { fail, Refusal } from '../../base/errors.ts';
import type { Json } from '../../base/text/strict-json.ts';
import type { Context } from '../../context.ts';
import { type JsonFields, type JsonReader, jsonObject, readJson } from '../../protocol/formats/json.ts';
import type { AdminOperation } from '../../protocol/operations/admin/row.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../protocol/operations/admin.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import { isSigningParameter } from '../../protocol/request/action-query.ts';
import { readAdminTarget } from '../../protocol/request/admin-target.ts';
import type { Query, Wire } from '../../protocol/request/wire.ts';
import type { AreaRequest } from '../handler.ts';
import {
  type AdminHandler,
  type AdminRequest,
  etagOf,
  type JsonReply,
  jsonReply,
  readPrecondition,
} from './call.ts';
import { onceOnly } from './idempotency.ts';
import {
  type Entries,
  type Fields,
  isOwnOf,
  namedResources,
  openEntries,
  visible,
} from './named-resources.ts';
import { shareRecentLines, shareRecentRequests, shareRequests } from './recent.ts';
import { shareDiagnostics } from './support-bundle.ts';
import { adminHandlers } from './table.ts';
import { shareTraces } from './traces.ts';

type Router = IttyRouterType<IRequestStrict, [AreaRequest, Context]>;

export function registerAdmin(router: Router, ctx: Context): void {
  shareTraces(ctx);
  shareDiagnostics(ctx);
  shareRequests(ctx);
  shareRecentRequests(ctx);
  shareRecentLines(ctx);
  const taken = new Map<string, string[]>();
  for (const name of adminOperationNames) {
    const { method, path } = describeAdminOperation(name);
    if (taken.has(path)) taken.get(path)?.push(method);
    else taken.set(path, [method]);
    const register = router[method.toLowerCase()] as Router['get'];
    register(path, (request, call, view) => run(view, call, { name, request }));
  }
  // After the routes: the first that matches answers.
  for (const [path, methods] of taken) router.all(path, () => refuseMethod(methods));
}

function refuseMethod(methods: readonly string[]): never {
  const allowed = methods.includes('GET') ? ['HEAD', ...methods] : methods;
  throw fail('MethodNotAllowed', { headers: { Allow: allowed.join(', ') } });
}

async function run(
  ctx: Context,
  call: AreaRequest,
  { name, request }: { readonly name: AdminOperationName; readonly request: IRequestStrict },
) {
  const { requestId, query, wire, signal } = call;
  const row = describeAdminOperation(name);
  const { audited } = row;
  const target = readAdminTarget(name, request.params);
  const isRefused = target instanceof Refusal;
  const bucketName = isRefused ? '' : target.bucketName;
  const record = call.asked(`admin:${name}`, { audited, bucketName, recorded: row });
  if (isRefused) throw target;
  // The router ignores slashes at the end: one resource of policies would have several paths.
  if (request.url.endsWith('/'))
    throw fail('InvalidURI', 'The path of an operation has no slash at its end.');
  const { path, params } = target;
  const may = { name, path, row };
  const fields = { own: call.identity?.owner, ...Object.fromEntries(params) };
  // Query and body are read first where they may name what the request is limited to.
  const isLate = isScoped(row) || row.tenants !== undefined;
  await (isLate ? assertKnown(ctx, call, may) : assertMayCall(ctx, call, { ...may, fields }));
  const given = readQuery(row.query, query);
  const bytes = await call.readBody(row.bodyMax);
  // The caller is authorized again below, because its policies may have changed while the body arrived.
  const body = readJson(row.body ?? noFields, bytes);
  const all: Fields = { ...fields, ...given, ...(body as Fields) };
  const permit = (found: Fields) => assertMayCall(ctx, call, { ...may, fields: { ...all, ...found } });
  const { bucket } = all;
  if (isScoped(row) && typeof bucket === 'string' && bucket !== '') record?.about(`bucket:${bucket}`);
  if (isLate || row.names !== undefined || row.method !== 'GET') await permit({});
  const asking = { caller: call.callerOf(name), action: `admin:${name}`, path, fields };
  const entries = openEntries(ctx, row, asking);
  const { identity } = call;
  const match = readPrecondition(ctx, wire, row);
  // The casts: query and body were read by the schemas of this row.
  const handle = adminHandlers[name] as AdminHandler<AdminOperationName>;
  const asked: AdminRequest = {
    requestId,
    identity,
    caller: call.callerOf(name),
    wire,
    signal,
    record,
    params,
    match,
    permit,
    entries,
    query: given as never,
    body: body as never,
  };
  const explain = (cause: unknown): never => {
    throw explainRefusal(cause, { identity, owner: undefined, action: `admin:${name}`, resource: path });
  };
  const repeatable = {
    wire,
    target: JSON.stringify([name, path, given]),
    account: identity?.owner ?? '',
    principal: principalOf(identity).sessionArn ?? principalOf(identity).arn,
    body: bytes,
    row,
  };
  const reply = await onceOnly(ctx, repeatable, async () =>
    withoutDenied(await handle(ctx, asked).catch(explain), row, entries),
  );
  return row.tagged === true ? withEtag(ctx, reply) : reply;
}

/** The body of such a reply is a text. */
function withEtag(ctx: Context, reply: Reply): Reply {
  return typeof reply.body === 'string'
    ? { ...reply, headers: [...reply.headers, ['ETag', etagOf(ctx, reply.body)]] }
    : reply;
}

const noFields = jsonObject({});

/** Leaves the entries out of a reply that are about resources that policies deny the caller. */
async function withoutDenied(
  reply: JsonReply<unknown>,
  { lists = {} }: Pick<AdminOperation, 'lists'>,
  entries: Entries,
): Promise<JsonReply<unknown>> {
  const { json } = reply;
  if (json === undefined || json === null) return reply;
  const shown: Record<string, unknown> = {};
  for (const list of Object.keys(lists)) {
    const all = (json as Fields)[list];
    if (!Array.isArray(all)) continue;
    const left = await visible(entries, list, all);
    if (left.length < all.length) shown[list] = left;
  }
  return Object.keys(shown).length === 0 ? reply : jsonReply({ ...json, ...shown }, reply.status);
}

/** Whether a field limits the request to a resource, so that an Allow of the path alone does not decide. */
const isScoped = ({ names = {} }: Pick<AdminOperation, 'names'>): boolean =>
  Object.values(names).some((named) => 'rule' in named && named.rule === 'scope');

interface May {
  readonly name: AdminOperationName;
  readonly path: string;
  readonly row: Pick<AdminOperation, 'callers' | 'names' | 'tenants'>;
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
  const isOwn = await isOwnOf(ctx, row, { identity: call.identity, fields });
  await authorizeAdmin(ctx, call.callerOf(name), { action: `admin:${name}`, path, named, isOwn });
}

/** Before the bucket is known that decides. @throws AccessDenied where no policy can allow it */
async function assertKnown(ctx: Context, call: AreaRequest, { name, path, row }: May): Promise<void> {
  if (row.tenants !== undefined && call.identity !== undefined) return;
  const refusal = await ungrantable(ctx, call.callerOf(name), { action: `admin:${name}`, path });
  if (refusal !== undefined) throw refusal;
}

/** The body of an unknown caller is read whole, so it must be short and have a Content-Length. @throws MissingContentLength, EntityTooLarge */
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
  const own = query.pairs.filter(([name]) => !isSigningParameter(name));
  for (const [name] of own) if (!Object.hasOwn(fields, name)) throw unknown(name, Object.keys(fields));
  return Object.fromEntries(
    Object.entries(fields).map(([name, reader]) => [name, readParameter(name, reader, query.get(name))]),
  );
}

function readParameter(name: string, reader: JsonReader<unknown>, given: string | undefined): unknown {
  try {
    return reader(given === undefined ? undefined : toJson(reader, given), name);
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

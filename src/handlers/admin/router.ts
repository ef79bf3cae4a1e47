/** Registers the operator API on the router, a row of its table at a time, and decides who may call it. */
import type { IRequestStrict, IttyRouterType } from 'itty-router';
import { authorizeAdmin, denialOf, ungrantable } from '../../auth/authorization/administer.ts';
import type { Context } from '../../context.ts';
import { fail, Refusal } from '../../errors/refusal.ts';
import { jsonObject, readJson } from '../../protocol/formats/json.ts';
import type { AdminOperation } from '../../protocol/operations/admin/row.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../protocol/operations/admin.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import { bucketPathOf, readAdminTarget } from '../../protocol/request/admin-target.ts';
import type { Wire } from '../../protocol/request/wire.ts';
import type { AreaRequest } from '../areas/area-request.ts';
import type { AdminHandler, AdminRequest } from './call.ts';
import { shareDiagnostics } from './maintenance/support-bundle.ts';
import { shareTraces } from './maintenance/traces.ts';
import { onceOnly } from './request/idempotency.ts';
import { readQuery } from './request/parameters.ts';
import { etagOf, readPrecondition } from './request/precondition.ts';
import { adminHandlers } from './table.ts';

type Router = IttyRouterType<IRequestStrict, [AreaRequest, Context]>;

export function registerAdmin(router: Router, ctx: Context): void {
  shareTraces(ctx);
  shareDiagnostics(ctx);
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
  const { audited, bucketIn } = row;
  const target = readAdminTarget(name, request.params);
  const isRefused = target instanceof Refusal;
  const record = call.asked(`admin:${name}`, { audited, bucketName: isRefused ? '' : target.bucketName });
  if (isRefused) throw target;
  // The router ignores slashes at the end: one resource of policies would have several paths.
  if (request.url.endsWith('/'))
    throw fail('InvalidURI', 'The path of an operation has no slash at its end.');
  const { path, params } = target;
  const names = bucketIn === 'path' || bucketIn === 'query' || bucketIn === 'body';
  const may = { name, path, callers: row.callers };
  const permit = (bucket: string) => assertMayCall(ctx, call, { ...may, bucket });
  const assertNotDenied = async (bucket: string) => {
    const about = { action: `admin:${name}`, path: bucketPathOf(name, bucket, params) };
    const refusal = bucket === '' ? undefined : await denialOf(ctx, call.callerOf(name), about);
    if (refusal !== undefined) throw refusal;
  };
  // Query and body are read first where they may name the bucket.
  await (names ? assertKnown(ctx, call, may) : assertMayCall(ctx, call, may));
  const given = readQuery(row.query, query);
  const bytes = await call.readBody();
  // The caller is authorized again below, because its policies may have changed while the body arrived.
  const body = readJson(row.body ?? noFields, bytes);
  if (names) {
    const bucket = nameOf({ path: params.get('bucket'), query: given, body }[bucketIn]);
    if (bucket !== '') record?.about(`bucket:${bucket}`);
    await permit(bucket);
  } else if (row.method !== 'GET') await assertMayCall(ctx, call, may);
  const { identity } = call;
  const match = readPrecondition(ctx, wire, row);
  // The casts: query and body were read by the schemas of this row.
  const handle = adminHandlers[name] as AdminHandler<AdminOperationName>;
  const asked: AdminRequest = {
    requestId,
    identity,
    wire,
    signal,
    record,
    params,
    match,
    permit,
    assertNotDenied,
    query: given as never,
    body: body as never,
  };
  const repeatable = {
    wire,
    target: JSON.stringify([name, path, given]),
    account: identity?.owner ?? '',
    body: bytes,
    row,
  };
  const reply = await onceOnly(ctx, repeatable, () => handle(ctx, asked));
  return row.tagged === true ? withEtag(ctx, reply) : reply;
}

/** The body of such a reply is a text. */
function withEtag(ctx: Context, reply: Reply): Reply {
  return typeof reply.body === 'string'
    ? { ...reply, headers: [...reply.headers, ['ETag', etagOf(ctx, reply.body)]] }
    : reply;
}

const noFields = jsonObject({});

interface May extends Pick<AdminOperation, 'callers'> {
  readonly name: AdminOperationName;
  readonly path: string;
  /** '' where the request names no bucket outside of the path's `buckets/:name`. */
  readonly bucket?: string;
}

/** @throws AccessDenied */
async function assertMayCall(
  ctx: Context,
  call: AreaRequest,
  { name, callers, path, bucket = '' }: May,
): Promise<void> {
  if (callers === 'anyone') return assertShort(call.wire);
  if (callers === 'known' && call.identity !== undefined) return;
  const bucketPath = bucket === '' ? undefined : bucketPathOf(name, bucket);
  await authorizeAdmin(ctx, call.callerOf(name), { action: `admin:${name}`, path, bucketPath });
}

/** Before the bucket is known that decides. @throws AccessDenied where no policy can allow it */
async function assertKnown(ctx: Context, call: AreaRequest, { name, path }: May): Promise<void> {
  const refusal = await ungrantable(ctx, call.callerOf(name), { action: `admin:${name}`, path });
  if (refusal !== undefined) throw refusal;
}

/** The bucket that a query or body names; '' for none. */
const nameOf = (given: unknown): string => {
  const named = given !== null && typeof given === 'object' && 'bucket' in given ? given.bucket : given;
  return typeof named === 'string' ? named : '';
};

/** The body of an unknown caller is read whole, so it must be short and have a Content-Length. @throws MissingContentLength, EntityTooLarge */
function assertShort({ headers }: Wire): void {
  const length = headers.get('content-length');
  if (length === undefined) throw fail('MissingContentLength');
  if (Number(length) > strangersBodyMax)
    throw fail('EntityTooLarge', `The body of this request has at most ${strangersBodyMax} bytes.`);
}
const strangersBodyMax = 4_096;

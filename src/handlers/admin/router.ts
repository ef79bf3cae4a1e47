/** Registers the operator API on the router, a row of its table at a time, and decides who may call it. */
import type { IRequestStrict, IttyRouterType } from 'itty-router';
import { authorizeAdmin } from '../../auth/authorization/administer.ts';
import type { Context } from '../../context.ts';
import {
  type AdminOperationName,
  adminBucketAt,
  adminOperationNames,
  adminPrefix,
  describeAdminOperation,
} from '../../protocol/operations/admin.ts';
import { percentDecode } from '../../protocol/request/wire.ts';
import type { AreaRequest } from '../areas/area-request.ts';
import { adminHandlers } from './table.ts';

type Router = IttyRouterType<IRequestStrict, [AreaRequest]>;

export function registerAdmin(router: Router, ctx: Context): void {
  for (const name of adminOperationNames) {
    const { method, path } = describeAdminOperation(name);
    const register = router[method.toLowerCase()] as Router['get'];
    register(path, (request, call) => run(ctx, call, { name, request }));
  }
}

async function run(
  ctx: Context,
  call: AreaRequest,
  { name, request }: { readonly name: AdminOperationName; readonly request: IRequestStrict },
) {
  const { requestId, query } = call;
  const { audited } = describeAdminOperation(name);
  const bucketName = adminBucketAt(request.url);
  const record = call.asked(`admin:${name}`, { audited, bucketName });
  const path = new URL(request.url).pathname.slice(`${adminPrefix}/`.length);
  const identity = await authorizeAdmin(ctx, call.callerOf(name), { action: `admin:${name}`, path });
  return adminHandlers[name](ctx, {
    requestId,
    identity,
    query,
    record,
    params: new Map(
      Object.entries<string>(request.params).map(([key, value]) => [key, percentDecode(value)]),
    ),
    body: await call.readBody(),
  });
}

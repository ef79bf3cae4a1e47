/** The last steps: the bucket, may the caller, the body, and the handler of the operation. */
import { isCharged } from '../auth/requester-pays.ts';
import type { Context } from '../context.ts';
import { type Reached, reach } from '../domain/access-points.ts';
import { noBody, readBody } from '../handlers/body.ts';
import { type BucketCall, type Call, needsBucket } from '../handlers/call.ts';
import { handlers } from '../handlers/table.ts';
import type { OperationName, Scope } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { asksInBody } from './asked.ts';
import type { Chosen } from './choose.ts';
import type { Place } from './locate.ts';
import { permit } from './permit.ts';
import { readAhead, remember } from './read-ahead.ts';
import { asksForIndex, showIndex } from './site.ts';
import { assertServed } from './through-access-point.ts';
import type { Trace } from './trace.ts';

export interface Serving {
  readonly hasBody: boolean;
  readonly place: Place;
  readonly scope: Scope;
  readonly trace: Trace;
}

const nowhere: Partial<Reached> = {};

export async function serve(
  ctx: Context,
  { row, call }: Chosen,
  { hasBody, place, scope, trace }: Serving,
): Promise<Reply> {
  const { operation } = call;
  const ahead = row.about === 'version' || row.about === 'head' ? readAhead(ctx, call) : undefined;
  const reached = needsBucket(row)
    ? await reach(ctx, call.bucketName, { isHost: place.virtual !== undefined })
    : undefined;
  const { bucket, accessPoint } = reached ?? nowhere;
  trace.bucket = bucket;
  if (bucket !== undefined) remember(ctx, bucket);
  if (accessPoint !== undefined) assertServed(operation, scope);
  else if (bucket !== undefined && asksForIndex(call, bucket)) {
    const index = await showIndex(ctx, call, { bucket, trace });
    if (index !== undefined) return index;
  }
  const facts = { ...call, bucketName: bucket?.name ?? call.bucketName, accessPoint };
  const read = () => readBody(ctx, facts, { hasBody, row, held: trace });
  // The body of an action has been read: it is a part of what is asked.
  const early = place.isAction ? noBody : asksInBody(operation) ? await read() : undefined;
  const target = await permit(ctx, facts, { row, bucket, body: early, ahead });
  trace.target = target;
  const charging = bucket !== undefined && row.judges !== 'nobody' && isCharged(ctx, facts, bucket);
  const isPaid = charging !== false && (await charging);
  const body = early ?? (await read());
  const about = bucket === undefined ? {} : { bucket, target, ahead };
  const reply = await dispatch(ctx, operation, { ...facts, body, ...about });
  return isPaid ? { ...reply, headers: [...reply.headers, ['*-request-charged', 'requester']] } : reply;
}

/** The types of the handler table say which calls carry a bucket; `needsBucket` is the same rule at run time. */
function dispatch(ctx: Context, operation: OperationName, call: Call & Partial<BucketCall>): Promise<Reply> {
  const handle = handlers[operation] as (ctx: Context, call: Call) => Promise<Reply>;
  return handle(ctx, call);
}

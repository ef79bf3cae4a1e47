/** The last steps: the bucket, may the caller, the body, and the handler of the operation. */
import { isCharged } from '../auth/requester-pays.ts';
import type { Context } from '../context.ts';
import { type Reached, reach } from '../domain/access-points.ts';
import { Refusal } from '../errors/refusal.ts';
import { noBody, readBody } from '../handlers/body.ts';
import { type BucketCall, type Call, needsBucket } from '../handlers/call.ts';
import { handlers } from '../handlers/table.ts';
import { lookAt, rememberBucket } from '../metadata/seen-buckets.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { StorageFull } from '../ports/storage-room.ts';
import type { OperationName, Scope } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { asksInBody } from './asked.ts';
import type { Chosen } from './choose.ts';
import type { Place } from './locate.ts';
import { permit } from './permit.ts';
import { type Ahead, believedIn, readAhead } from './read-ahead.ts';
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

export function serve(ctx: Context, chosen: Chosen, serving: Serving): Promise<Reply> {
  const { row, call } = chosen;
  const ahead = row.about === 'version' || row.about === 'head' ? readAhead(ctx, call) : undefined;
  return ahead?.believed === undefined
    ? serveIn(ctx, chosen, serving, { ahead })
    : serveBelieving(ctx, chosen, serving, ahead);
}

async function serveBelieving(ctx: Context, chosen: Chosen, serving: Serving, ahead: Ahead): Promise<Reply> {
  const believed = await believedIn(ahead);
  if (believed !== undefined) {
    try {
      return await serveIn(ctx, chosen, serving, { ahead, believed });
    } catch (cause) {
      // Nobody is refused for what a bucket was.
      if (!(cause instanceof Refusal)) throw cause;
    }
  }
  return serveIn(ctx, chosen, serving, { ahead });
}

/** The bucket of the request as it is now; remembered where reading it is a round trip. */
function reachNow(ctx: Context, name: string, { place }: Serving): Promise<Reached> {
  const by = { isHost: place.virtual !== undefined };
  return ctx.metadata.isDistant ? reachAfar(ctx, name, by) : reach(ctx, name, by);
}

async function reachAfar(ctx: Context, name: string, by: Parameters<typeof reach>[2]): Promise<Reached> {
  const { metadata, clock } = ctx;
  const look = lookAt(metadata, clock.elapsed());
  const reached = await reach(ctx, name, by);
  rememberBucket(metadata, reached.bucket, look);
  return reached;
}

async function serveIn(
  ctx: Context,
  { row, call }: Chosen,
  serving: Serving,
  { ahead, believed }: { readonly ahead: Ahead | undefined; readonly believed?: BucketRow },
): Promise<Reply> {
  const { hasBody, place, scope, trace } = serving;
  const { operation } = call;
  const reached =
    believed !== undefined
      ? { bucket: believed }
      : needsBucket(row)
        ? await reachNow(ctx, call.bucketName, serving)
        : nowhere;
  const { bucket, accessPoint }: Partial<Reached> = reached;
  trace.bucket = bucket;
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
  if (row.adds) assertRoom(ctx);
  const charging = bucket !== undefined && row.judges !== 'nobody' && isCharged(ctx, facts, bucket);
  const isPaid = charging !== false && (await charging);
  const reading = early ?? read();
  const body = reading instanceof Promise ? await reading : reading;
  const about = bucket === undefined ? {} : { bucket, target, ahead };
  const reply = await dispatch(ctx, operation, { ...facts, body, ...about });
  return isPaid ? { ...reply, headers: [...reply.headers, ['*-request-charged', 'requester']] } : reply;
}

/** Asked before the body is read, and of whoever may do what they ask: a stranger learns nothing of the disk. */
function assertRoom({ room }: Pick<Context, 'room'>): void {
  const complaint = room?.complaint();
  if (complaint !== undefined) throw new StorageFull(complaint);
}

/** The types of the handler table say which calls carry a bucket; `needsBucket` is the same rule at run time. */
function dispatch(ctx: Context, operation: OperationName, call: Call & Partial<BucketCall>): Promise<Reply> {
  const handle = handlers[operation] as (ctx: Context, call: Call) => Promise<Reply>;
  return handle(ctx, call);
}

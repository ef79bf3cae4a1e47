/** The last steps: the bucket, may the caller, the body, and the handler of the operation. */
import { arnOf } from '../auth/authorize.ts';
import { explainBlock } from '../auth/explain-block.ts';
import { isCharged } from '../auth/requester-pays.ts';
import type { Context } from '../context.ts';
import { type Reached, reach } from '../domain/access-points.ts';
import { watched } from '../domain/watched.ts';
import { fail, Refusal } from '../errors/refusal.ts';
import { noBody, readBody } from '../handlers/body.ts';
import { type BucketCall, type Call, needsBucket } from '../handlers/call.ts';
import { handlers } from '../handlers/table.ts';
import { lookAt, rememberBucket } from '../metadata/seen-buckets.ts';
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';
import { StorageFull } from '../ports/storage-room.ts';
import type { OperationName } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Scope } from '../protocol/request-line.ts';
import { asksInBody } from './asked.ts';
import type { PacedBody } from './body-pace.ts';
import type { Chosen } from './choose.ts';
import type { Place } from './locate.ts';
import { assertMayAsk, permit } from './permit.ts';
import { type Ahead, believedIn, readAhead } from './read-ahead.ts';
import { asksForIndex, showIndex } from './site.ts';
import { assertServed } from './through-access-point.ts';
import type { Trace } from './trace.ts';

export interface Serving {
  readonly hasBody: boolean;
  readonly pace: PacedBody | undefined;
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

type Facts = Omit<Call, 'body'>;

/** Whom and what the caller is judged by. */
interface Judged {
  readonly facts: Facts;
  readonly bucket: BucketRow | undefined;
  readonly target: ObjectRow | undefined;
  readonly ahead: Ahead | undefined;
  readonly isPaid: boolean;
}

async function serveIn(
  ctx: Context,
  { row, call }: Chosen,
  serving: Serving,
  { ahead, believed }: { readonly ahead: Ahead | undefined; readonly believed?: BucketRow },
): Promise<Reply> {
  const { hasBody, pace, place, scope, trace } = serving;
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
  const judging: Judging = { row, name: call.bucketName, serving };
  // A decision that needs the body waits for it, unless the caller is refused whatever it says.
  const needsBody = !place.isAction && asksInBody(operation);
  if (needsBody) assertMayAsk(facts, bucket);
  let judged = needsBody ? undefined : await judge(ctx, { facts, bucket, ahead }, judging);
  if (judged !== undefined && row.adds) assertRoom(ctx);
  if (row.streams) pace?.stream();
  // The body of an action has been read: it is a part of what is asked.
  const reading = place.isAction ? noBody : readBody(ctx, facts, { hasBody, row, held: trace });
  const body = reading instanceof Promise ? await reading : reading;
  // The world may have changed while the body came: it is the caller and the bucket of now that count.
  if (judged === undefined || reading instanceof Promise)
    judged = await judge(ctx, await asOfNow(ctx, { facts, bucket }, judging), { ...judging, body });
  if (needsBody && row.adds) assertRoom(ctx);
  const { target, isPaid } = judged;
  trace.target = target;
  const about = judged.bucket === undefined ? {} : { bucket: judged.bucket, target, ahead: judged.ahead };
  const payload = row.streams && hasBody ? judgedAgain(ctx, judged, judging) : facts.payload;
  const reply = await dispatch(ctx, operation, { ...judged.facts, payload, body, ...about }).catch(
    (cause: unknown) => {
      throw explainBlock(cause, {
        identity: facts.identity,
        owner: bucket?.owner,
        action: row.action,
        resource: `"${arnOf({ ...facts, action: row.action })}"`,
      });
    },
  );
  return isPaid ? { ...reply, headers: [...reply.headers, ['*-request-charged', 'requester']] } : reply;
}

/** Asked before the body is read, after the caller was authorized: a stranger learns nothing of the disk. */
function assertRoom({ room }: Pick<Context, 'room'>): void {
  const complaint = room?.complaint();
  if (complaint !== undefined) throw new StorageFull(complaint);
}

interface Judging {
  readonly row: Chosen['row'];
  /** That the request asked for: of a bucket or an access point. */
  readonly name: string;
  readonly serving: Serving;
  readonly body?: Uint8Array | undefined;
}

/** @throws AccessDenied, and what else the caller is refused with */
async function judge(
  ctx: Context,
  { facts, bucket, ahead }: Pick<Judged, 'facts' | 'bucket' | 'ahead'>,
  { row, body }: Judging,
): Promise<Judged> {
  const target = await permit(ctx, facts, { row, bucket, body, ahead });
  const charging = bucket !== undefined && row.judges !== 'nobody' && isCharged(ctx, facts, bucket);
  return { facts, bucket, target, ahead, isPaid: charging !== false && (await charging) };
}

/**
 * The caller and the bucket, read again after the body has come.
 * @throws InvalidAccessKeyId for a key that was made inactive, NoSuchBucket for a bucket that is gone or another one
 */
async function asOfNow(
  ctx: Context,
  { facts, bucket }: Pick<Judged, 'facts' | 'bucket'>,
  { name, serving }: Judging,
): Promise<Pick<Judged, 'facts' | 'bucket' | 'ahead'>> {
  const identity = (await facts.renew?.()) ?? facts.identity;
  if (bucket === undefined) return { facts: { ...facts, identity }, bucket, ahead: undefined };
  const now = await reachNow(ctx, name, serving);
  if (now.bucket.id !== bucket.id) throw fail('NoSuchBucket', { elements: { BucketName: bucket.name } });
  serving.trace.bucket = now.bucket;
  return {
    facts: { ...facts, identity, accessPoint: now.accessPoint },
    bucket: now.bucket,
    ahead: undefined,
  };
}

/** A body that is streamed for less than this is stored under the judgement of its first byte. */
const judgedMs = 1_000;

/** At its end a body that came for longer is judged again, by the caller and the bucket of now: else nothing is committed. */
function judgedAgain(ctx: Context, { facts, bucket }: Judged, judging: Judging): Facts['payload'] {
  const judgedAt = ctx.clock.elapsed();
  const content = watched(facts.payload.content, {
    see() {},
    async end() {
      if (ctx.clock.elapsed() - judgedAt < judgedMs) return;
      await judge(ctx, await asOfNow(ctx, { facts, bucket }, judging), judging);
    },
  });
  return { ...facts.payload, content };
}

/** The types of the handler table say which calls carry a bucket; `needsBucket` is the same rule at run time. */
function dispatch(ctx: Context, operation: OperationName, call: Call & Partial<BucketCall>): Promise<Reply> {
  const handle = handlers[operation] as (ctx: Context, call: Call) => Promise<Reply>;
  return handle(ctx, call);
}

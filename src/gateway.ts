/**
 * The pipeline (design §1, spec "What the service does" 6): one request in, one reply out.
 *
 *     authenticate → address → select → authorize → handle → render
 *
 * The signature is verified over what arrived, before any address is rewritten. The facts that each step
 * establishes stand in one `Call`, assigned once.
 */

import { isCharged } from './auth/requester-pays.ts';
import type { Context } from './context.ts';
import { type Reached, reach } from './domain/access-points.ts';
import { drawRequestId } from './domain/version-ids.ts';
import { acceptForm } from './gateway/accept-form.ts';
import { logAccess, mayBeLogged } from './gateway/access-log.ts';
import { areaCall } from './gateway/area-call.ts';
import { asksInBody } from './gateway/asked.ts';
import { askedAction } from './gateway/asked-action.ts';
import { crossOriginHeaders } from './gateway/cross-origin.ts';
import { identify } from './gateway/identify.ts';
import { locate } from './gateway/locate.ts';
import { permit } from './gateway/permit.ts';
import { Recording, recordingOfUnknown } from './gateway/recording.ts';
import { refusalOf } from './gateway/refusal-of.ts';
import { reportAnswer } from './gateway/report-answer.ts';
import { asksForIndex, showIndex, visitSite } from './gateway/site.ts';
import { assertServed } from './gateway/through-access-point.ts';
import { openTrace, type Trace, unknownOperation } from './gateway/trace.ts';
import { type Areas, openAreas } from './handlers/areas.ts';
import { noBody, readBody } from './handlers/body.ts';
import { type BucketCall, type Call, header, needsBucket, ownHeaders } from './handlers/call.ts';
import { assertKey } from './handlers/key.ts';
import { handlers } from './handlers/table.ts';
import type { BucketRow } from './metadata/tables.ts';
import { serviceOf } from './protocol/action-errors.ts';
import { noParameters } from './protocol/action-query.ts';
import { type AddressRules, splitAddress } from './protocol/address.ts';
import { amz, shownDialect, store } from './protocol/dialect.ts';
import { fromRequest, toResponse } from './protocol/fetch.ts';
import { describeOperation, type OperationName } from './protocol/operations.ts';
import { renderHeaders, renderRefusal } from './protocol/render.ts';
import type { Reply } from './protocol/reply.ts';
import { select } from './protocol/select.ts';
import { type Incoming, splitTarget } from './protocol/wire.ts';

export interface GatewayOptions {
  /** The path under which the gateway is mounted, for example `/s3`; signatures cover it, addresses do not. */
  readonly basePath?: string;
}

export interface Gateway {
  /** For runtimes with a socket of their own: no Request or Response object is made. */
  handle(incoming: Incoming): Promise<Reply>;
  /** For every fetch-based framework. */
  fetch(request: Request): Promise<Response>;
}

interface Pipeline {
  readonly ctx: Context;
  readonly rules: AddressRules;
  readonly areas: Areas;
}

export function createGateway(ctx: Context, options: GatewayOptions = {}): Gateway {
  const rules = {
    domains: ctx.config.SVC_DOMAIN,
    websiteDomains: ctx.config.SVC_WEBSITE_DOMAIN,
    basePath: options.basePath ?? '',
  };
  const pipeline = { ctx, rules, areas: openAreas(ctx) };
  const handle = (incoming: Incoming): Promise<Reply> => answer(pipeline, incoming);
  return {
    handle,
    fetch: async (request) => toResponse(await handle(fromRequest(request)), request.method),
  };
}

/** Runs the steps and renders whatever comes of them; the one place where a request's errors are caught. */
async function answer(pipeline: Pipeline, incoming: Incoming): Promise<Reply> {
  const { ctx } = pipeline;
  const { wire } = incoming;
  const startedAt = ctx.clock.elapsed();
  const { path, query } = splitTarget(wire.target);
  const trace = openTrace(drawRequestId(ctx.random), path);
  let reply: Reply;
  let code: string | undefined;
  try {
    reply = await run(pipeline, { incoming, query, trace });
  } catch (cause) {
    const refusal = refusalOf(ctx, cause, { incoming, trace });
    // Refused before its caller was known: it is answered as it spoke, and audited as it asked.
    trace.dialect ??= shownDialect([...wire.headers.names(), ...query.split('&')]);
    code = refusal.code;
    if (trace.operation === unknownOperation) trace.recording = recordingOfUnknown(ctx, trace);
    const { requestId, format } = trace;
    reply = renderRefusal(refusal, { requestId, resource: path, isHead: wire.method === 'HEAD', format });
  }
  ctx.bodyMemory.give(trace.heldBytes);
  if (trace.recording !== undefined) await trace.recording.end({ status: reply.status, code });
  if (mayBeLogged(trace, code)) reply = await logAccess(ctx, trace, { reply, code, startedAt });
  const durationMs = ctx.clock.elapsed() - startedAt;
  reportAnswer(ctx, { wire, trace, status: reply.status, code, durationMs });
  const crossOrigin = crossOriginHeaders(ctx, { wire, ...trace });
  const headers = renderHeaders(
    [
      ['*-request-id', trace.requestId],
      ['*-id-2', trace.requestId],
      ...reply.headers,
      ...(crossOrigin === undefined ? [] : await crossOrigin),
    ],
    trace.dialect,
  );
  return { ...reply, headers };
}

const nowhere: Partial<Reached> = {};

async function run(
  { ctx, rules, areas }: Pipeline,
  {
    incoming,
    query: rawQuery,
    trace,
  }: { readonly incoming: Incoming; readonly query: string; readonly trace: Trace },
): Promise<Reply> {
  const place = locate(ctx.config, rules, { incoming, path: trace.path, rawQuery });
  trace.place = place;
  trace.format = place.format;
  const { wire, query, local, virtual, area, isAction } = place;
  const { identity, signed, dialect, payload } = await identify(ctx, incoming, {
    ...place,
    path: trace.path,
  });
  trace.dialect = dialect === undefined ? undefined : dialect === 'amz' ? amz : store;
  if (area !== undefined) {
    trace.operation = `area:${area}`;
    return areas(local, areaCall(ctx, { wire, query, identity, payload, trace, incoming }));
  }

  const { scope, bucket: bucketName, key } = splitAddress(local, virtual);
  const { signal } = incoming;
  const named = { wire, signal, dialect: trace.dialect, own: ownHeaders(wire, query, trace.dialect) };
  const arrived = { ...named, requestId: trace.requestId, query, identity, signed, payload, bucketName, key };
  trace.call = arrived;
  if (place.isSite) return visitSite(ctx, arrived, trace);
  const { operation, parameters } = isAction
    ? await askedAction(ctx, { ...arrived, incoming, held: trace }, place.control)
    : {
        operation: select(wire.method, scope, query, (name) => header(arrived, name) !== undefined),
        parameters: noParameters,
      };
  const form = operation === 'PostObject' ? await acceptForm(ctx, arrived) : undefined;
  if (form !== undefined) trace.dialect = form.dialect;
  trace.operation = operation;
  const row = describeOperation(operation);
  if (isAction) trace.format = serviceOf(row.action);
  const about = { ...arrived, parameters, ...form };
  trace.call = about;
  if (row.audited) trace.recording = new Recording(ctx, { ...about, action: operation, events: row.events });
  if (scope === 'object') assertKey(key);
  const reached = needsBucket(row)
    ? await reach(ctx, bucketName, { isHost: virtual !== undefined })
    : undefined;
  const { bucket, accessPoint } = reached ?? nowhere;
  trace.bucket = bucket;
  if (accessPoint !== undefined) assertServed(operation, scope);
  if (bucket !== undefined && asksForIndex(arrived, bucket)) {
    const index = await showIndex(ctx, arrived, { bucket, trace });
    if (index !== undefined) return index;
  }
  const facts = {
    ...about,
    operation,
    bucketName: bucket?.name ?? bucketName,
    accessPoint,
    record: trace.recording,
  };
  return serve(ctx, facts, { row, bucket, hasBody: incoming.body !== undefined, isAction, trace });
}

interface Serving {
  readonly row: ReturnType<typeof describeOperation>;
  readonly bucket: BucketRow | undefined;
  readonly hasBody: boolean;
  /** The body of an action has been read: it is a part of what is asked. */
  readonly isAction: boolean;
  readonly trace: Trace;
}

/** The steps from authorize on. */
async function serve(
  ctx: Context,
  facts: Omit<Call, 'body'>,
  { row, bucket, hasBody, isAction, trace }: Serving,
): Promise<Reply> {
  const { operation } = facts;
  const read = () => readBody(ctx, facts, { hasBody, row, held: trace });
  const early = isAction ? noBody : asksInBody(operation) ? await read() : undefined;
  const target = await permit(ctx, facts, { row, bucket, body: early });
  trace.target = target;
  const charging = bucket !== undefined && row.judges !== 'nobody' && isCharged(ctx, facts, bucket);
  const isPaid = charging !== false && (await charging);
  const body = early ?? (await read());
  const call = { ...facts, body, ...(bucket === undefined ? {} : { bucket, target }) };
  const reply = await dispatch(ctx, operation, call);
  return isPaid ? { ...reply, headers: [...reply.headers, ['*-request-charged', 'requester']] } : reply;
}

/** The types of the handler table say which calls carry a bucket; `needsBucket` is the same rule at run time. */
function dispatch(ctx: Context, operation: OperationName, call: Call & Partial<BucketCall>): Promise<Reply> {
  const handle = handlers[operation] as (ctx: Context, call: Call) => Promise<Reply>;
  return handle(ctx, call);
}

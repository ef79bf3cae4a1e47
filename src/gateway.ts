/**
 * The pipeline (design §1, spec "What the service does" 6): one request in, one reply out.
 *
 *     authenticate → address → select → authorize → handle → render
 *
 * The signature is verified over what arrived, before any address is rewritten. The facts that each step
 * establishes stand in one `Call`, assigned once.
 */

import type { Context } from './context.ts';
import { drawRequestId } from './domain/version-ids.ts';
import { logAccess, mayBeLogged } from './gateway/access-log.ts';
import { areaCall } from './gateway/area-call.ts';
import { PacedBody } from './gateway/body-pace.ts';
import { choose } from './gateway/choose.ts';
import { crossOriginHeaders } from './gateway/cross-origin.ts';
import { identify } from './gateway/identify.ts';
import { locate } from './gateway/locate.ts';
import { recordingOfUnknown } from './gateway/recording.ts';
import { refusalOf } from './gateway/refusal-of.ts';
import { reportAnswer } from './gateway/report-answer.ts';
import { serve } from './gateway/serve.ts';
import { visitSite } from './gateway/site.ts';
import { openTrace, type Trace, unknownOperation } from './gateway/trace.ts';
import { type Areas, openAreas } from './handlers/areas.ts';
import { ownHeaders } from './handlers/call.ts';
import { type AddressRules, splitAddress } from './protocol/address.ts';
import { amz, shownDialect, store } from './protocol/dialect.ts';
import { fromRequest, toResponse } from './protocol/fetch.ts';
import { renderHeaders, renderRefusal } from './protocol/render.ts';
import type { Reply } from './protocol/reply.ts';
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
  const handle = (incoming: Incoming): Promise<Reply> => answer(pipeline, paced(ctx, incoming));
  return {
    handle,
    fetch: async (request) => toResponse(await handle(fromRequest(request)), request.method),
  };
}

function paced(ctx: Context, incoming: Incoming): Incoming {
  const { body } = incoming;
  return body === undefined ? incoming : { ...incoming, body: new PacedBody(ctx, body) };
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
  const recording = trace.recording?.end({ status: reply.status, code });
  if (recording !== undefined) await recording;
  if (mayBeLogged(trace, code)) reply = await logAccess(ctx, trace, { reply, code, startedAt });
  const durationMs = ctx.clock.elapsed() - startedAt;
  reportAnswer(ctx, { wire, trace, status: reply.status, code, durationMs });
  const crossOrigin = crossOriginHeaders(ctx, wire, trace);
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

/** Where, who, what, and then the rest of the steps in `serve`. */
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
  const { query, local, virtual, area } = place;
  const who = await identify(ctx, incoming, { ...place, path: trace.path });
  const { hoisted = [] } = who;
  const wire =
    hoisted.length === 0 ? place.wire : { ...place.wire, headers: place.wire.headers.with(hoisted) };
  trace.dialect = who.dialect === undefined ? undefined : who.dialect === 'amz' ? amz : store;
  const { identity, signed, renew, payload } = who;
  if (area !== undefined) {
    trace.operation = `area:${area}`;
    return areas(local, areaCall(ctx, { wire, query, identity, renew, payload, trace, incoming }));
  }
  const { requestId, dialect } = trace;
  const { scope, bucket: bucketName, key } = splitAddress(local, virtual);
  const own = ownHeaders(wire, query, dialect);
  const { signal } = incoming;
  const arrived = {
    requestId,
    wire,
    query,
    dialect,
    own,
    identity,
    signed,
    renew,
    payload,
    bucketName,
    key,
    signal,
  };
  trace.call = arrived;
  if (place.isSite) return visitSite(ctx, arrived, trace);
  const choosing = choose(ctx, arrived, { place, scope, incoming, trace });
  const chosen = choosing instanceof Promise ? await choosing : choosing;
  const { body } = incoming;
  const pace = body instanceof PacedBody ? body : undefined;
  return await serve(ctx, chosen, { hasBody: body !== undefined, pace, place, scope, trace });
}

/**
 * The pipeline: one request in, one reply out.
 *
 *     locate → identify → select → authorize → handle → render
 *
 * The signature is verified over what arrived, before any address is rewritten. Each stage adds its facts to the request
 * (`gateway/request.ts`).
 */

import type { Context } from './context.ts';
import { drawRequestId } from './domain/objects/version-ids.ts';
import type { Refusal } from './errors/refusal.ts';
import { areaRequest } from './gateway/area-request.ts';
import { PacedBody } from './gateway/body-pace.ts';
import { crossOriginHeaders } from './gateway/cross-origin.ts';
import { logAccess, mayBeLogged } from './gateway/records/access-log.ts';
import { recordingOfUnknown } from './gateway/records/recording.ts';
import { countTraffic, receivedBytesOf } from './gateway/records/traffic.ts';
import { toRefusal } from './gateway/refusal.ts';
import { type Ending, establish, type RequestContext, receive, unknownOperation } from './gateway/request.ts';
import { visitSite } from './gateway/site.ts';
import { identify } from './gateway/stages/identify.ts';
import { locate } from './gateway/stages/locate.ts';
import { selectOperation } from './gateway/stages/select-operation.ts';
import { serve } from './gateway/stages/serve.ts';
import { type Areas, openAreas } from './handlers/areas/areas.ts';
import { shownDialect } from './protocol/dialect.ts';
import { renderHeaders, renderRefusal } from './protocol/reply/render.ts';
import type { Reply } from './protocol/reply/reply.ts';
import type { AddressRules } from './protocol/request/address.ts';
import { fromRequest, toResponse } from './protocol/request/fetch.ts';
import { type Incoming, splitTarget } from './protocol/request/wire.ts';

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
  const handle = async (incoming: Incoming): Promise<Reply> => {
    ctx.telemetry.requestsInFlight(1);
    try {
      return await answer(pipeline, paced(ctx, incoming));
    } finally {
      ctx.telemetry.requestsInFlight(-1);
    }
  };
  return {
    handle,
    fetch: async (request) => toResponse(await handle(fromRequest(request)), request.method),
  };
}

function paced(ctx: Context, incoming: Incoming): Incoming {
  const { body } = incoming;
  return body === undefined ? incoming : { ...incoming, body: new PacedBody(ctx, body) };
}

/** Runs the stages and renders whatever comes of them; the one place where a request's errors are caught. */
async function answer(pipeline: Pipeline, incoming: Incoming): Promise<Reply> {
  const { ctx } = pipeline;
  const { wire } = incoming;
  const startedAt = ctx.clock.elapsed();
  const requestId = drawRequestId(ctx.random);
  const request: RequestContext = receive(incoming, { requestId, startedAt, ...splitTarget(wire.target) });
  let reply: Reply;
  let code: string | undefined;
  try {
    reply = await run(pipeline, request);
  } catch (cause) {
    const refusal = toRefusal(ctx, cause, request);
    code = refusal.code;
    reply = refused(ctx, request, refusal);
  }
  ctx.bodyMemory.give(request.heldBytes);
  await request.record?.end({ status: reply.status, code });
  reply = countTraffic(ctx, request, reply);
  if (mayBeLogged(request, code)) reply = await logAccess(ctx, request, { reply, code });
  reportAnswer(ctx, request, { status: reply.status, code });
  const headers = renderHeaders(
    [
      ['*-request-id', requestId],
      ['*-id-2', requestId],
      ...reply.headers,
      ...(await crossOriginHeaders(ctx, request)),
    ],
    request.dialect,
  );
  return { ...reply, headers };
}

/** The reply to a request that was refused, at whatever stage. */
function refused(ctx: Context, request: RequestContext, refusal: Refusal): Reply {
  const { incoming, rawQuery, operation, requestId, path, format } = request;
  const { method, headers } = incoming.wire;
  // Refused before its caller was known: it is answered in the dialect of its headers, and audited by its address.
  const dialect = request.dialect ?? shownDialect([...headers.names(), ...rawQuery.split('&')]);
  const record = operation === unknownOperation ? recordingOfUnknown(ctx, request) : request.record;
  establish(request, { dialect, record });
  return renderRefusal(refusal, { requestId, resource: path, isHead: method === 'HEAD', format });
}

/** The stages: where it went, who sent it, which operation it asks for; then the bucket, the permission and the handler. */
async function run({ ctx, rules, areas }: Pipeline, received: RequestContext): Promise<Reply> {
  const located = locate(ctx.config, rules, received);
  const identified = await identify(ctx, located);
  const { area, local, isSite } = identified;
  if (area !== undefined) {
    establish(identified, { operation: `area:${area}` });
    return areas(local, areaRequest(ctx, identified));
  }
  if (isSite) return visitSite(ctx, identified);
  return serve(ctx, await selectOperation(ctx, identified));
}

/** Metrics of every request, and a line of the log at level DEBUG: written out it costs a tenth of a small request. */
function reportAnswer(
  { telemetry, clock }: Context,
  request: RequestContext,
  { status, code }: Ending,
): void {
  const { requestId, operation, path, incoming, startedAt, bucket } = request;
  const { method, remote } = incoming.wire;
  const durationMs = clock.elapsed() - startedAt;
  const receivedBytes = receivedBytesOf(incoming);
  telemetry.request({ operation, method, status, code, durationMs, requestId, receivedBytes, bucket });
  telemetry.log('DEBUG', 'request answered', {
    request_id: requestId,
    operation,
    method,
    path,
    status,
    code,
    duration_ms: durationMs,
    remote,
  });
}

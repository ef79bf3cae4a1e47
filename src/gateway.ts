/**
 * The pipeline: one request in, one reply out.
 *
 *     locate → identify → select → authorize → handle → render
 *
 * The signature is verified over what arrived, before any address is rewritten. Each stage adds its facts to the request
 * (`request/request.ts`).
 */

import { fail, type Refusal } from './base/errors.ts';
import type { Context } from './context.ts';
import { drawRequestId } from './domain/common/ids.ts';
import { consolePreflight, crossOriginHeaders, mayBeCrossOrigin } from './gateway/cross-origin.ts';
import { identify } from './gateway/identify.ts';
import { locate } from './gateway/locate.ts';
import { endLimits, limitCaller, limitTenant } from './gateway/permit.ts';
import { Recording, recordingOfUnknown } from './gateway/recording.ts';
import { beginTrace, endTrace, logAccess, mayBeLogged, reportAnswer } from './gateway/report.ts';
import { selectOperation } from './gateway/select-operation.ts';
import { serve } from './gateway/serve.ts';
import { visitSite } from './gateway/site.ts';
import { countTraffic, limitUnsent, PacedBody } from './gateway/traffic.ts';
import { type Areas, openAreas } from './handlers/areas.ts';
import type { AdminApi, AreaRequest } from './handlers/handler.ts';
import { noLabels } from './ports/telemetry.ts';
import { type AddressRules, sortDomains } from './protocol/address.ts';
import { replyDialect } from './protocol/dialect.ts';
import { fromRequest, toResponse } from './protocol/fetch.ts';
import { renderHeaders, renderRefusal } from './protocol/render.ts';
import type { HeaderPair, Reply } from './protocol/reply.ts';
import { type Incoming, splitTarget, withBody } from './protocol/wire.ts';
import { emptyBody, readBody } from './request/body.ts';
import { type Failure, toFailure } from './request/failure.ts';
import {
  establish,
  type Identified,
  type RequestContext,
  receive,
  unknownOperation,
} from './request/request.ts';

export interface GatewayOptions {
  /** The path under which the gateway is mounted, for example `/s3`; signatures cover it, addresses do not. */
  readonly basePath?: string;
}

export interface StorageGatewayOptions extends GatewayOptions {
  readonly adminApi?: AdminApi | undefined;
  /** Called for each answered request, once its operation and its refusal are known. */
  readonly onAnswer?: OnAnswer | undefined;
}

type OnAnswer = (request: Pick<RequestContext, 'requestId' | 'operation'>, code: string | undefined) => void;

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
  readonly onAnswer: OnAnswer | undefined;
}

/** Without the operator API, unless it is passed: a bundle without `admin-gateway.ts` has none of its code. */
export function createStorageGateway(ctx: Context, options: StorageGatewayOptions = {}): Gateway {
  const { adminApi: admin, basePath = '', onAnswer } = options;
  const rules = {
    domains: sortDomains(ctx.config.SVC_DOMAIN, ctx.config.SVC_WEBSITE_DOMAIN),
    basePath,
  };
  const pipeline = { ctx, rules, areas: openAreas(ctx, { basePath, adminApi: admin }), onAnswer };
  const inFlight = ctx.caches.of(InFlight);
  inFlight.report(ctx);
  const handle = async (incoming: Incoming): Promise<Reply> => {
    inFlight.enter();
    try {
      return await answer(pipeline, paced(ctx, incoming));
    } finally {
      inFlight.leave();
    }
  };
  return {
    handle,
    fetch: async (request) => toResponse(await handle(fromRequest(request)), request.method),
  };
}

/** The requests that the gateways of a context answer now: it has one for each path below which it is mounted. */
export class InFlight {
  #count = 0;
  #isReported = false;
  #isClosed = false;
  /** Aborted when no request is left, once somebody waits for that. */
  #none: AbortController | undefined;

  enter(): void {
    this.#count += 1;
  }

  /** The stores are closed, or will be: without this check, a late request would meet an error of theirs. @throws ServiceUnavailable */
  assertOpen(): void {
    if (this.#isClosed) throw fail('ServiceUnavailable', 'The gateway is closed.');
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count === 0) this.#none?.abort();
  }

  /** Refuses later ones, and waits until all have replies, for so long at most. */
  async end({ clock }: Pick<Context, 'clock'>, ms: number): Promise<void> {
    this.#isClosed = true;
    if (this.#count === 0) return;
    this.#none ??= new AbortController();
    await clock.sleep(ms, this.#none.signal);
  }

  report({ telemetry }: Pick<Context, 'telemetry'>): void {
    if (this.#isReported) return;
    this.#isReported = true;
    telemetry.onRead(() => telemetry.set('svc_http_requests_in_flight', noLabels, this.#count));
  }
}

function paced(ctx: Context, incoming: Incoming): Incoming {
  const { body } = incoming;
  return body === undefined ? incoming : withBody(incoming, new PacedBody(ctx, body));
}

/** Runs the stages and renders whatever comes of them; the one place where a request's errors are caught. */
async function answer(pipeline: Pipeline, incoming: Incoming): Promise<Reply> {
  const { clock, random } = pipeline.ctx;
  const { wire } = incoming;
  const startedAt = clock.elapsed();
  const requestId = drawRequestId(random);
  const request: RequestContext = receive(incoming, { requestId, startedAt, ...splitTarget(wire.target) });
  const trace = beginTrace(pipeline.ctx, request);
  const ctx = trace === undefined ? pipeline.ctx : trace.view(pipeline.ctx);
  let reply: Reply;
  let failure: Failure | undefined;
  try {
    reply = await runIfOpen(trace === undefined ? pipeline : { ...pipeline, ctx }, request);
    const limited = limitUnsent(ctx, request, reply);
    reply = limited instanceof Promise ? await limited : limited;
  } catch (cause) {
    failure = toFailure(cause, request.signal);
    if (incoming.body instanceof PacedBody) incoming.body.endDeadline();
    reply = refused(ctx, request, failure.refusal);
  }
  const code = failure?.refusal.code;
  if (request.bufferedFor !== undefined) ctx.bodyMemory.give(request.bufferedBytes, request.bufferedFor);
  const ending = { status: reply.status, code };
  if (request.record?.isComplete(ending) === false) await request.record.end(ending);
  reply = endLimits(ctx, request, countTraffic(ctx, request, reply));
  if (mayBeLogged(request, code)) reply = await logAccess(ctx, request, { reply, code });
  const at = clock.elapsed();
  reportAnswer(ctx, request, { status: reply.status, failure, at });
  pipeline.onAnswer?.(request, code);
  if (trace !== undefined) reply = endTrace(trace, reply, { code, at });
  const ids: HeaderPair[] = [
    ['*-request-id', requestId],
    ['*-id-2', requestId],
  ];
  const headers = ids.concat(reply.headers);
  // The SDKs read the request id of IAM and STS from this header, which has the same name in both dialects.
  if (isGlobalAction(request)) headers.push(['x-amzn-requestid', requestId]);
  if (mayBeCrossOrigin(request)) headers.push(...(await crossOriginHeaders(ctx, request)));
  return { ...reply, headers: renderHeaders(headers, request.dialect) };
}

const isGlobalAction = ({ format }: Pick<RequestContext, 'format'>): boolean =>
  format === 'iam' || format === 'sts';

/** The reply to a request that was refused, at whatever stage. */
function refused(ctx: Context, request: RequestContext, refusal: Refusal): Reply {
  const { incoming, rawQuery, operation, requestId, path, format } = request;
  const { method, headers } = incoming.wire;
  // Refused before its caller was known: it is answered in the dialect of its headers, and audited by its address.
  const dialect = request.dialect ?? replyDialect([...headers.names(), ...rawQuery.split('&')]);
  const record =
    operation === unknownOperation ? recordingOfUnknown(ctx, request, refusal.code) : request.record;
  establish(request, { dialect, record });
  return renderRefusal(refusal, { requestId, resource: path, isHead: method === 'HEAD', format });
}

/**
 * Not in `run`: each call in an async function makes the frame larger that every request allocates.
 * @throws ServiceUnavailable; the reason of a client that has left already, for whom nothing is changed
 */
function runIfOpen(pipeline: Pipeline, received: RequestContext): Promise<Reply> {
  pipeline.ctx.caches.of(InFlight).assertOpen();
  received.signal.throwIfAborted();
  return run(pipeline, received);
}

/** The stages: where it went, who sent it, which operation it asks for; then the bucket, the permission and the handler. */
async function run({ ctx, rules, areas }: Pipeline, received: RequestContext): Promise<Reply> {
  const located = locate(ctx.config, rules, received);
  const preflight = consolePreflight(ctx.config, located);
  if (preflight !== undefined) {
    establish(located, { operation: 'area:console' });
    return preflight;
  }
  // Before the caller is known, because the audit row of a refusal names the operation.
  if (located.area === 'admin') establish(located, { findAdmin: await areas.loadAdmin() });
  const identified = await identify(ctx, located);
  const { area, local, isSite } = identified;
  if (area !== undefined) {
    establish(identified, { operation: `area:${area}` });
    await limitTenant(ctx, identified);
    return areas.serve(ctx, local, areaRequest(ctx, identified));
  }
  const limiting = limitCaller(ctx, identified);
  if (limiting !== undefined) await limiting;
  if (isSite) return visitSite(ctx, identified);
  ctx.trace?.stage('select');
  return serve(ctx, await selectOperation(ctx, identified));
}

// What the operator, metrics and health areas get of a request.

const areaRequest = (ctx: Context, request: Identified): AreaRequest => {
  const { requestId, wire, query, renew, payload, incoming } = request;
  return {
    requestId,
    wire,
    query,
    signal: request.signal,
    get identity() {
      return request.identity;
    },
    callerOf: (operation) => {
      const { own, signed, identity } = request;
      return { wire, query, own, signed, identity, operation };
    },
    async readBody(bodyMax) {
      const hasBody = incoming.body !== undefined;
      const body = await readBody(
        ctx,
        { wire, own: new Map(), payload, identity: request.identity },
        { hasBody, row: bodyMax === undefined ? {} : { bodyMax }, countedIn: request },
      );
      // The caller's key may have been made inactive, or its user changed, while the body arrived.
      establish(request, { identity: (await renew?.()) ?? request.identity });
      return body ?? emptyBody;
    },
    asked: (action, { audited, bucketName, recorded }) => {
      const { identity } = request;
      const asked = { requestId, wire, action, identity, bucketName, key: '', recorded };
      return establish(request, {
        operation: action,
        record: audited ? new Recording(ctx, asked) : undefined,
      }).record;
    },
  };
};

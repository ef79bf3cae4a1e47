/**
 * The gateway on workerd, for a trial: everything is in the memory of one isolate and is lost with it. The runtime normalises
 * `request.url`, so a key with a `.` or `..` segment cannot be addressed.
 */

import { parseConfig } from '../config/read/read-config.ts';
import type { Environment } from '../config.ts';
import { createGateway, type Gateway } from '../gateway.ts';
import { openPortable } from '../portable-context.ts';
import { systemClock } from '../ports/clock.ts';
import { systemRandom } from '../ports/random.ts';
import { silentTelemetry } from '../ports/telemetry.ts';
import { fromRequest, toResponse } from '../protocol/request/fetch.ts';
import { configureLog, createLog } from '../telemetry/log.ts';
import { createTracer } from '../telemetry/tracing/tracer.ts';

/** Not `compose`: a bundle made from it would contain the backends that need a disk. */
function gatewayFrom(env: Environment): Gateway {
  const config = parseConfig(env);
  if ('faults' in config) throw new Error(config.faults.join('\n'));
  // An isolate has no console where an operator would see a created key.
  if (config.SVC_CREDENTIALS === undefined) throw new Error('SVC_CREDENTIALS is not set');
  configureLog({ level: config.SVC_LOG_LEVEL, write: (line) => console.log(line) });
  const clock = systemClock;
  const telemetry = { ...silentTelemetry, log: createLog() };
  // No exporter: the requests that an isolate makes belong to one that it serves, so nothing could send a queue in the background.
  const tracer = createTracer({
    clock,
    random: systemRandom(),
    process: 'isolate',
    sample: 0,
    browser: config.SVC_TRACE_BROWSER,
  });
  if (config.SVC_OTLP_ENDPOINT !== undefined)
    telemetry.log('WARN', 'SVC_OTLP_ENDPOINT has no effect: this runtime exports no spans');
  return createGateway(openPortable(config, { clock, telemetry, tracer }).context);
}

/** Created by the first request, because workerd refuses to draw random bytes before one. */
let gateway: Gateway | undefined;

export default {
  async fetch(request: Request, env: Environment): Promise<Response> {
    try {
      gateway ??= gatewayFrom(env);
    } catch (error) {
      console.error(`sluice: ${String(error)}`);
      return new Response('the gateway is not configured; its log says why\n', { status: 500 });
    }
    const remote = request.headers.get('cf-connecting-ip') ?? '';
    const reply = await gateway.handle(fromRequest(request, { remote }));
    return withLength(toResponse(reply, request.method));
  },
};

declare const FixedLengthStream: {
  new (length: number): TransformStream<Uint8Array, Uint8Array>;
};

/** The runtime drops the Content-Length of a stream, unless the stream itself has a length. */
function withLength(response: Response): Response {
  const length = response.headers.get('content-length');
  if (length === null || response.body === null) return response;
  const { readable, writable } = new FixedLengthStream(Number(length));
  // An error on one side ends the other too; the runtime reports it.
  response.body.pipeTo(writable).catch(() => {});
  return new Response(readable, response);
}

/**
 * The gateway on workerd. With the bindings `SLUICE` (the class `SluiceMetadata`) and `BUCKET` (R2) it is durable;
 * without them everything is in the memory of one isolate, for a trial. The runtime normalises `request.url`, so a key
 * with a `.` or `..` segment cannot be addressed. The console is served from the binding of static assets `ASSETS`,
 * whose directory is `dist/console` of the package.
 */
import { withLength } from '../adapters.ts';
import { parseConfig } from '../config/read-config.ts';
import { createStorageGateway, type Gateway } from '../gateway.ts';
import { adminOperations } from '../handlers/admin/router.ts';
import { answerSiblings } from '../handlers/areas.ts';
import { serveConsole } from '../handlers/console.ts';
import type { AdminApi } from '../handlers/handler.ts';
import { workerdClock } from '../ports/clock.ts';
import type { ConsoleAssets } from '../ports/console-assets.ts';
import { systemRandom } from '../ports/random.ts';
import { silentTelemetry } from '../ports/telemetry.ts';
import { fromRequest, toResponse } from '../protocol/fetch.ts';
import { createLineLog } from '../telemetry/log-line.ts';
import { createTracer } from '../telemetry/tracer.ts';
import { type CloudflareBindings, isolateMemory, settingTexts } from './cloudflare/bindings.ts';
import { openCloudflare, openInMemory } from './cloudflare/storage.ts';

export type { CloudflareBindings, MetadataNamespace } from './cloudflare/bindings.ts';
export { SluiceMetadata } from './cloudflare/metadata-object.ts';
export { type CloudflareOptions, cloudflare } from './cloudflare/storage.ts';

/**
 * All of it is in the bundle. `admin-gateway.ts` loads it later, for which a bundler wraps each module: 25 kB more, and
 * no sooner a start.
 */
const adminApi: AdminApi = { share: answerSiblings, serveConsole, open: async () => adminOperations };

/** A binding of static assets. */
interface Assets {
  fetch(url: string): Promise<Response>;
}

/** Never compressed: the runtime compresses what a reply says is plain. */
function consoleFrom(assets: Assets): ConsoleAssets {
  const read = async (name: string): Promise<Response | undefined> => {
    // The binding looks at the path alone.
    const reply = await assets.fetch(`https://assets.invalid/${name}`);
    return reply.ok ? reply : undefined;
  };
  return {
    page: async () => (await read('page.html'))?.text(),
    async read(name) {
      const reply = await read(`assets/${name}`);
      return reply && { bytes: new Uint8Array(await reply.arrayBuffer()) };
    },
  };
}

/** Not `compose`: a bundle made from it would contain the backends that need a disk. */
function gatewayFrom(env: object): Gateway {
  // The cast: these bindings are objects of the runtime.
  const { ASSETS: assets, ...bindings } = env as { readonly ASSETS?: unknown } & Partial<CloudflareBindings>;
  const isDurable = bindings.SLUICE !== undefined && bindings.BUCKET !== undefined;
  const texts = settingTexts(env);
  const config = parseConfig(isDurable ? { ...isolateMemory, ...texts } : texts);
  if ('faults' in config) throw new Error(config.faults.join('\n'));
  // An isolate has no console where an operator would see a created key.
  if (config.SVC_CREDENTIALS === undefined) throw new Error('SVC_CREDENTIALS is not set');
  const clock = workerdClock;
  const telemetry = {
    ...silentTelemetry,
    log: createLineLog({ level: config.SVC_LOG_LEVEL, write: (line) => console.log(line) }),
  };
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
  const { context } = isDurable
    ? openCloudflare(config, bindings as CloudflareBindings, { telemetry, tracer })
    : openInMemory(config, { telemetry, tracer });
  return createStorageGateway(
    assets === undefined ? context : { ...context, consoleAssets: consoleFrom(assets as Assets) },
    { adminApi },
  );
}

/** Created by the first request, because workerd refuses to draw random bytes before one. */
let gateway: Gateway | undefined;

interface Execution {
  waitUntil(promise: Promise<unknown>): void;
}

export default {
  async fetch(request: Request, env: object, execution: Execution): Promise<Response> {
    try {
      gateway ??= gatewayFrom(env);
    } catch (error) {
      console.error(`sluice: ${String(error)}`);
      return new Response('the gateway is not configured; its log says why\n', { status: 500 });
    }
    const remote = request.headers.get('cf-connecting-ip') ?? '';
    const replying = gateway.handle(fromRequest(request, { remote }));
    // A client that leaves must not end what other requests wait for, nor a write before its op is ended.
    execution.waitUntil(replying.catch(() => undefined));
    return withLength(toResponse(await replying, request.method));
  },
};

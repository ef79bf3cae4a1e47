/** The areas outside of the storage protocol: health, metrics, operator API, routed by path. */
import { type IRequestStrict, IttyRouter } from 'itty-router';
import { type AdminQuestion, adminRefusal } from '../auth/administer.ts';
import { fail } from '../base/errors.ts';
import type { Context } from '../context.ts';
import { openReadiness, type Readiness } from '../domain/clusters/readiness.ts';
import { matchArea } from '../protocol/address.ts';
import type { Reply } from '../protocol/reply.ts';
import type { FindAsked } from '../request/request.ts';
import { shareDiagnostics, shareRecentLines, shareRecentRequests, shareRequests } from './admin/recent.ts';
import { shareTraces } from './admin/traces.ts';
import { isConsolePath } from './console.ts';
import type { AdminApi, AreaRequest } from './handler.ts';

export interface Areas {
  /** The context is that of the request: its backend calls are spans of its trace. */
  serve(ctx: Context, path: string, call: AreaRequest): Promise<Reply>;
  /** Loads the operator API, once; until then its area has no routes. Undefined in a gateway without it. */
  loadAdmin(): Promise<FindAsked | undefined>;
}

const plain = (status: number, body: string): Reply => ({
  status,
  headers: [
    ['Content-Type', 'text/plain; charset=utf-8'],
    ['Cache-Control', 'no-store'],
  ],
  body,
});

/** The router reads paths as URLs, which would make another path of these: `DELETE /logins/.` would end every log-in. */
const changedByUrl = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)|[\\#?\s]/i;

interface AreaOptions {
  /** Where the gateway is mounted, for addresses in replies. */
  readonly basePath: string;
  readonly adminApi: AdminApi | undefined;
}

export function openAreas(ctx: Context, { basePath, adminApi }: AreaOptions): Areas {
  const readiness = openReadiness(ctx);
  const router = IttyRouter<IRequestStrict, [AreaRequest, Context]>();
  router
    .get('/healthz', () => plain(200, 'ok\n'))
    .get('/readyz', (_request, call, view) => ready(view, readiness, call))
    .get('/metrics', (_request, call, view) => metrics(view, call));
  adminApi?.share(ctx);
  let opening: Promise<FindAsked | undefined> | undefined;
  const openAdmin = async (): Promise<FindAsked | undefined> => {
    try {
      const operations = await adminApi?.open();
      operations?.register(router);
      return operations?.find;
    } catch (error) {
      // The next request tries again.
      opening = undefined;
      throw error;
    }
  };
  const serve: Areas['serve'] = async (view, path, call) => {
    const isConsole = isConsolePath(path);
    // The path of a page may contain any key of an object.
    if (isConsole && adminApi !== undefined)
      return adminApi.serveConsole(view, call.wire, { path, basePath });
    const { method } = call.wire;
    if (changedByUrl.test(path))
      throw fail('InvalidURI', 'The path has a segment "." or "..", or one of \\ # ?.');
    const asked = { method: method === 'HEAD' ? 'GET' : method, url: `http://area${path}` };
    const reply: Reply | undefined = await router.fetch(asked, call, view);
    if (reply === undefined)
      throw fail(
        'NotFound',
        adminApi === undefined && (isConsole || matchArea(path) === 'admin')
          ? 'This gateway was opened without the operator API.'
          : `There is nothing at ${path}.`,
      );
    return reply;
  };
  return {
    serve,
    loadAdmin: () => {
      opening ??= openAdmin();
      return opening;
    },
  };
}

/**
 * 200 while a recent write and read of each backend succeeded, else 503; `?need=reads` requires reads and deletions only, which a full
 * disk still serves. Operators and scrapers see each component and its reason, other callers one word.
 */
async function ready(ctx: Context, readiness: Readiness, call: AreaRequest): Promise<Reply> {
  const { status, components } = await readiness();
  const isReady = status === 'ok' || (status === 'full' && call.query.get('need') === 'reads');
  if (status !== 'ok') {
    const reasons = components.filter((each) => each.status !== 'ok');
    ctx.telemetry.log('WARN', 'not ready', { status, components: reasons });
  }
  const code = isReady ? 200 : 503;
  if (!(await mayScrape(ctx, call, { action: 'admin:GetReadiness', path: 'readyz' })))
    return plain(code, isReady ? 'ready\n' : 'not ready\n');
  const publicComponents = components.map(({ checkedAt, ...each }) => ({
    ...each,
    checkedAt: new Date(checkedAt).toISOString(),
  }));
  return {
    status: code,
    headers: [
      ['Content-Type', 'application/json'],
      ['Cache-Control', 'no-store'],
    ],
    body: `${JSON.stringify({ ready: isReady, status, components: publicComponents })}\n`,
  };
}

/** Operators, and clients that send the metrics token. */
async function mayScrape(ctx: Context, call: AreaRequest, question: AdminQuestion): Promise<boolean> {
  const { config, hasher } = ctx;
  const { wire, identity } = call;
  if (
    identity !== undefined &&
    (await adminRefusal(ctx, call.callerOf(question.action), question)) === undefined
  )
    return true;
  const token = config.SVC_METRICS_TOKEN;
  const bearer = /^Bearer (.+)$/i.exec(wire.headers.get('authorization') ?? '')?.[1];
  // Compared by digest, so that neither length nor content shows in the time it takes.
  return token !== undefined && bearer !== undefined && hasher.sha256Hex(bearer) === hasher.sha256Hex(token);
}

const openMetricsType = 'application/openmetrics-text; version=1.0.0; charset=utf-8';

async function metrics(ctx: Context, call: AreaRequest): Promise<Reply> {
  if (!(await mayScrape(ctx, call, { action: 'admin:GetMetrics', path: 'metrics' })))
    throw fail('AccessDenied', 'Metrics are for operators, or with SVC_METRICS_TOKEN as a bearer token.');
  const isOpen = /application\/openmetrics-text/i.test(call.wire.headers.get('accept') ?? '');
  return {
    status: 200,
    headers: [['Content-Type', isOpen ? openMetricsType : 'text/plain; version=0.0.4; charset=utf-8']],
    body: await ctx.telemetry.metrics(isOpen ? 'openmetrics' : 'text'),
  };
}

/** What other processes of the node may ask, from the start, before the operator API is loaded. */
export function answerSiblings(ctx: Context): void {
  shareTraces(ctx);
  shareDiagnostics(ctx);
  shareRequests(ctx);
  shareRecentRequests(ctx);
  shareRecentLines(ctx);
}

/** What is not the storage protocol: health and metrics, routed by path (design §7.16). */
import { type IRequestStrict, IttyRouter } from 'itty-router';
import type { Identity } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import type { Recorder } from '../domain/recorder.ts';
import { fail } from '../errors/refusal.ts';
import { unreachable } from '../ports/object-bytes.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import { registerAdmin } from './admin/router.ts';

export interface AreaCall {
  readonly requestId: string;
  readonly wire: Wire;
  readonly query: Query;
  readonly identity: Identity;
  /** The whole body, verified. */
  readBody(): Promise<Uint8Array>;
  /** Tells the pipeline what it is, and gets what its commits are to record where it may change something. */
  asked(
    action: string,
    about: { readonly audited: boolean; readonly bucketName: string },
  ): Recorder | undefined;
}

const first = /^\/(admin|console|metrics|healthz|readyz|iam)(?=[/]|$)/;

/** The area that a local path lies in, or undefined for the storage protocol. */
export const areaOf = (path: string): string | undefined => first.exec(path)?.[1];

export type Areas = (path: string, call: AreaCall) => Promise<Reply>;

const plain = (status: number, body: string): Reply => ({
  status,
  headers: [
    ['Content-Type', 'text/plain; charset=utf-8'],
    ['Cache-Control', 'no-store'],
  ],
  body,
});

export function openAreas(ctx: Context): Areas {
  const router = IttyRouter<IRequestStrict, [AreaCall]>();
  router
    .get('/healthz', () => plain(200, 'ok\n'))
    .get('/readyz', () => ready(ctx))
    .get('/metrics', (_request, call) => metrics(ctx, call));
  registerAdmin(router, ctx);
  return async (path, call) => {
    const { method } = call.wire;
    const asked = { method: method === 'HEAD' ? 'GET' : method, url: `http://area${path}` };
    const reply: Reply | undefined = await router.fetch(asked, call);
    if (reply === undefined) throw fail('NotFound', `There is nothing at ${path}.`);
    return reply;
  };
}

/**
 * Ready when metadata answers and a data cluster can be asked: one of several that is away is no reason to serve nobody.
 * One that the settings leave out while objects may be on it is a mistake that an operator is to hear of at once.
 */
async function ready({ metadata, bytes, clusterStates, config, telemetry }: Context): Promise<Reply> {
  try {
    await metadata.now();
    const clusters = await bytes.health();
    if (clusters.every(({ status }) => status === unreachable))
      throw new Error(`no data cluster can be asked: ${clusters[0]?.complaints.join(', ')}`);
    const { leftOut } = await clusterStates.view();
    if (leftOut.length === 0) return plain(200, 'ready\n');
    const list = config.SVC_DATA_BACKEND === 'upstream-store' ? 'SVC_UPSTREAMS' : 'SVC_POOL_CLUSTERS';
    const why = `${list} leaves out ${leftOut.join(', ')}, where chunks may be`;
    telemetry.log('WARN', 'not ready', { cause: why });
    return plain(503, `not ready: ${why}\n`);
  } catch (cause) {
    telemetry.log('WARN', 'not ready', { cause });
    return plain(503, 'not ready\n');
  }
}

/** For operators, or whoever holds the token. */
async function metrics({ telemetry, config, hasher }: Context, { wire, identity }: AreaCall): Promise<Reply> {
  const token = config.SVC_METRICS_TOKEN;
  const bearer = /^Bearer (.+)$/i.exec(wire.headers.get('authorization') ?? '')?.[1];
  // Compared by digest, so that neither length nor content shows in the time it takes.
  const isTokenRight =
    token !== undefined && bearer !== undefined && hasher.sha256Hex(bearer) === hasher.sha256Hex(token);
  if (!isTokenRight && !identity?.operator)
    throw fail('AccessDenied', 'Metrics are for operators, or with SVC_METRICS_TOKEN as a bearer token.');
  return {
    status: 200,
    headers: [['Content-Type', 'text/plain; version=0.0.4; charset=utf-8']],
    body: await telemetry.metrics(),
  };
}

/** The trace of a request: what it is about, and when it ends. */
import { describeServer } from '../../base/text/server-address.ts';
import type { Context } from '../../context.ts';
import type { Attributes, Trace } from '../../ports/trace.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import type { RequestContext } from '../request.ts';
import { countedBody } from './counted-body.ts';

/** Undefined where the request is not recorded. */
export const beginTrace = (ctx: Context, request: RequestContext): Trace | undefined =>
  ctx.tracer?.begin({
    subject: request,
    kind: 'server',
    startedAt: request.startedAt,
    stage: 'identify',
    describe: () => describeRequest(request),
    parent: request.incoming.wire.headers.get('traceparent'),
  });

/** Methods that the conventions know; others are `_OTHER`, so that their number is bounded. */
const methods: ReadonlySet<string> = new Set([
  ...['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'QUERY', 'TRACE'],
]);

/** Names of https://opentelemetry.io/docs/specs/semconv/; no query, because signatures are in it. */
function describeRequest(request: RequestContext): Attributes {
  const { requestId, path, key, bucketName, query, own, incoming, wire = incoming.wire } = request;
  const { method, secure, remote, headers } = wire;
  const scheme = secure ? 'https' : 'http';
  const isKnown = methods.has(method);
  const uploadId = query?.get('uploadId');
  const given = {
    'http.request.method': isKnown ? method : '_OTHER',
    'http.request.method_original': isKnown ? undefined : method,
    'url.path': path,
    'url.scheme': scheme,
    'client.address': remote,
    'user_agent.original': headers.get('user-agent'),
    ...describeServer(headers.get('host') ?? '', scheme),
    'aws.request_id': requestId,
    'aws.s3.bucket': bucketName,
    'aws.s3.key': key,
    'aws.s3.copy_source': own?.get('copy-source'),
    'aws.s3.upload_id': uploadId,
    // The convention has it for uploads alone.
    'aws.s3.part_number': uploadId === undefined ? undefined : readPartNumber(query?.get('partNumber')),
  };
  const isGiven = (each: [string, string | number | undefined]): each is [string, string | number] =>
    each[1] !== undefined && each[1] !== '';
  return Object.fromEntries(Object.entries(given).filter(isGiven));
}

/** Undefined for a text that is no part number: the request is refused for it. */
const readPartNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,5}$/.test(text) ? Number(text) : undefined;

/** The trace ends with the body of the reply. */
export function endTrace(trace: Trace, reply: Reply, code: string | undefined): Reply {
  const { status, body } = reply;
  if (typeof body === 'object' && Symbol.asyncIterator in body) {
    trace.answered({ status, code });
    return { ...reply, body: countedBody(body, () => trace.end()) };
  }
  trace.end({ status, code });
  return reply;
}

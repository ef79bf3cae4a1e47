/** The trace of a request: what it is about, and when it ends. */
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

/** Names of https://opentelemetry.io/docs/specs/semconv/; no query, because signatures are in it. */
function describeRequest(request: RequestContext): Attributes {
  const { requestId, path, key, bucketName, query, own, incoming, wire = incoming.wire } = request;
  const given = {
    'http.request.method': wire.method,
    'url.path': path,
    'url.scheme': wire.secure ? 'https' : 'http',
    'client.address': wire.remote,
    'server.address': wire.headers.get('host'),
    'aws.request_id': requestId,
    'aws.s3.bucket': bucketName,
    'aws.s3.key': key,
    'aws.s3.copy_source': own?.get('copy-source'),
    'aws.s3.upload_id': query?.get('uploadId'),
    'aws.s3.part_number': query?.get('partNumber'),
  };
  return Object.fromEntries(
    Object.entries(given).filter((each): each is [string, string] => each[1] !== undefined && each[1] !== ''),
  );
}

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

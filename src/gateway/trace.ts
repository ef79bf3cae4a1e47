/** The trace of a request: what it is about, and when it ends. */
import { describeServer } from '../base/text/server-address.ts';
import type { Context } from '../context.ts';
import type { Attributes, Trace, TraceBeginning } from '../ports/trace.ts';
import type { Reply } from '../protocol/reply.ts';
import type { RequestContext } from '../request/request.ts';
import { countedBody } from './traffic.ts';

/** Undefined where the request is not recorded. */
export const beginTrace = (ctx: Context, request: RequestContext): Trace | undefined =>
  ctx.tracer?.begin(new RequestBeginning(request));

/** A class of one field, because every request has one, and most of it is never read. */
class RequestBeginning implements TraceBeginning {
  readonly subject: RequestContext;

  constructor(request: RequestContext) {
    this.subject = request;
  }

  get kind() {
    return 'server' as const;
  }
  get stage() {
    return 'identify';
  }
  get startedAt() {
    return this.subject.startedAt;
  }
  get parent() {
    return this.subject.incoming.wire.headers.get('traceparent');
  }

  describe(): Attributes {
    return describeRequest(this.subject);
  }
}

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
  const input = {
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
  const isPresent = (each: [string, string | number | undefined]): each is [string, string | number] =>
    each[1] !== undefined && each[1] !== '';
  return Object.fromEntries(Object.entries(input).filter(isPresent));
}

/** Undefined for a text that is no part number: the request is refused for it. */
const readPartNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,5}$/.test(text) ? Number(text) : undefined;

/** The trace ends with the body of the reply. */
export function endTrace(
  trace: Trace,
  reply: Reply,
  { code, at }: { readonly code: string | undefined; readonly at: number },
): Reply {
  const { status, body } = reply;
  const end = { status, code, at };
  if (typeof body !== 'object' || !(Symbol.asyncIterator in body)) {
    trace.end(end);
    return reply;
  }
  trace.answered(end);
  const counted = countedBody(body, () => trace.end());
  return counted === body ? reply : { ...reply, body: counted };
}

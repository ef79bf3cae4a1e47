/** The CORS headers that let a page of another origin read the reply, also of a refusal. */
import type { Context } from '../context.ts';
import { lookUpBucket } from '../domain/buckets/buckets.ts';
import { readDocument } from '../domain/configurations/documents.ts';
import { bucketCors } from '../domain/configurations/families.ts';
import { Refusal } from '../errors/refusal.ts';
import { allowingHeaders, matchCors, readCrossOrigin, varyHeader } from '../handlers/common/cross-origin.ts';
import type { HeaderPair } from '../protocol/reply/reply.ts';
import { consoleHeaders } from './console-origin.ts';
import type { RequestContext } from './request.ts';
import { bucketNameAt, whereLocated } from './stages/locate.ts';

const none: readonly HeaderPair[] = [];

export async function crossOriginHeaders(
  ctx: Context,
  request: RequestContext,
): Promise<readonly HeaderPair[]> {
  const { bucket, incoming } = request;
  const { wire } = incoming;
  if (wire.method === 'OPTIONS') return none;
  const located = whereLocated(request);
  const ofConsole = located && consoleHeaders(ctx.config, located);
  if (ofConsole !== undefined) return ofConsole;
  const concerns = bucket === undefined ? wire.headers.has('origin') : bucketCors.name in bucket.documents;
  return concerns ? headersFor(ctx, request) : none;
}

/** A reply is sent without these headers where they cannot be determined. */
async function headersFor(ctx: Context, request: RequestContext): Promise<readonly HeaderPair[]> {
  try {
    const located = whereLocated(request);
    const row = request.bucket ?? (located && (await lookUpBucket(ctx, bucketNameAt(located))));
    const cors = row && (await readDocument(ctx, row, bucketCors));
    if (cors === undefined) return none;
    const asked = readCrossOrigin(request.incoming.wire);
    const rule = asked && matchCors(cors, asked);
    return asked && rule ? [...allowingHeaders(rule, asked), varyHeader] : [varyHeader];
  } catch (cause) {
    if (!(cause instanceof Refusal))
      ctx.telemetry.log('WARN', 'a reply goes without its CORS headers', {
        request_id: request.requestId,
        cause,
      });
    return none;
  }
}

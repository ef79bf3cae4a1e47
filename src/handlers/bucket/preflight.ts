/**
 * OptionsBucket and OptionsObject: a browser asks whether a page may send a request. The caller is neither authenticated nor
 * authorized, and the key need not exist. The texts are those of the public API.
 */
import type { Context } from '../../context.ts';
import { lookUpBucket } from '../../domain/buckets/buckets.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { bucketCors } from '../../domain/configurations/families.ts';
import { fail } from '../../errors/refusal.ts';
import type { Authorized } from '../../gateway/request.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import { allowingHeaders, matchCors, readCrossOrigin, varyHeader } from '../common/cross-origin.ts';
import { emptyReply } from '../common/xml-reply.ts';

/** The methods that a rule can allow. */
const corsMethods: ReadonlySet<string> = new Set(['GET', 'PUT', 'POST', 'DELETE', 'HEAD']);

async function preflight(ctx: Context, { wire, bucketName, key }: Authorized): Promise<Reply> {
  const asked = readCrossOrigin(wire);
  if (asked === undefined)
    throw fail('BadRequest', 'Insufficient information. Origin request header needed.');
  const refuse = (message: string, resource: 'BUCKET' | 'OBJECT') =>
    fail('AccessForbidden', {
      message: `CORSResponse: ${message}`,
      elements: { Method: asked.method, ResourceType: resource },
    });
  const bucket = await lookUpBucket(ctx, bucketName);
  if (bucket === undefined) throw refuse('Bucket not found', 'BUCKET');
  const cors = await readDocument(ctx, bucket, bucketCors);
  if (cors === undefined) throw refuse('CORS is not enabled for this bucket.', 'BUCKET');
  const method = wire.headers.get('access-control-request-method');
  if (method === undefined || !corsMethods.has(method))
    throw fail('BadRequest', `Invalid Access-Control-Request-Method: ${method ?? 'null'}`);
  const rule = matchCors(cors, asked);
  if (rule === undefined) {
    throw refuse(
      "This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
      key === '' ? 'BUCKET' : 'OBJECT',
    );
  }
  return emptyReply(200, [...allowingHeaders(rule, asked), varyHeader]);
}

export const OptionsBucket = preflight;
export const OptionsObject = preflight;

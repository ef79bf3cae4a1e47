/** A part of the last step: what lets a page of another origin read the reply, whatever became of its request. */
import type { Context } from '../context.ts';
import { lookUpBucket } from '../domain/buckets.ts';
import { readDocument } from '../domain/documents.ts';
import { bucketCors } from '../domain/families.ts';
import { Refusal } from '../errors/refusal.ts';
import type { HeaderPair } from '../handlers/call.ts';
import { allowingHeaders, crossOriginOf, matchCors, varyHeader } from '../handlers/cross-origin.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { Wire } from '../protocol/wire.ts';
import { bucketNameAt, type Place } from './locate.ts';

export interface Answered {
  readonly requestId: string;
  /** Undefined where the request was refused before its bucket was opened. */
  readonly bucket: BucketRow | undefined;
  readonly place: Place | undefined;
}

const none: readonly HeaderPair[] = [];

/** Undefined where there is nothing to add, as nearly always: nothing is awaited then. */
export function crossOriginHeaders(
  ctx: Context,
  wire: Wire,
  answered: Answered,
): Promise<readonly HeaderPair[]> | undefined {
  const { bucket } = answered;
  if (wire.method === 'OPTIONS') return undefined;
  const concerns = bucket === undefined ? wire.headers.has('origin') : bucketCors.name in bucket.documents;
  return concerns ? headersFor(ctx, wire, answered) : undefined;
}

/** A reply is not lost over headers that could not be told. */
async function headersFor(
  ctx: Context,
  wire: Wire,
  { requestId, bucket, place }: Answered,
): Promise<readonly HeaderPair[]> {
  try {
    const row = bucket ?? (place && (await lookUpBucket(ctx, bucketNameAt(place))));
    const cors = row && (await readDocument(ctx, row, bucketCors));
    if (cors === undefined) return none;
    const asked = crossOriginOf(wire);
    const rule = asked && matchCors(cors, asked);
    return asked && rule ? [...allowingHeaders(rule, asked), varyHeader] : [varyHeader];
  } catch (cause) {
    if (!(cause instanceof Refusal))
      ctx.telemetry.log('WARN', 'a reply goes without its CORS headers', { request_id: requestId, cause });
    return none;
  }
}

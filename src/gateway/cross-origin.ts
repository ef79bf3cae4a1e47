/** The CORS headers that let a page of another origin read the reply, also of a refusal. */

import { Refusal } from '../base/errors.ts';
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { readDocument } from '../domain/configurations/documents.ts';
import { bucketCors } from '../domain/configurations/families.ts';
import {
  allowingHeaders,
  headerNamesMax,
  matchCors,
  readCrossOrigin,
  varyHeader,
} from '../handlers/common/cross-origin.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { dialects } from '../protocol/dialect.ts';
import type { HeaderPair, Reply } from '../protocol/reply.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import type { Located, RequestContext } from '../request/request.ts';
import { findBucket } from './find-bucket.ts';
import { bucketNameAt, whereLocated } from './locate.ts';

const none: readonly HeaderPair[] = [];

/** Whether the reply may need headers of CORS: a browser names the origin, and a bucket with rules answers every request by them. */
export const mayBeCrossOrigin = ({ bucket, incoming }: RequestContext): boolean =>
  incoming.wire.headers.has('origin') || (bucket !== undefined && bucketCors.name in bucket.documents);

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
    const row = request.bucket ?? (located && (await findAddressed(ctx, located)));
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

/** @throws NoSuchBucket, NoSuchAccessPoint */
async function findAddressed(ctx: Context, located: Located): Promise<BucketRow> {
  const { bucket } = await findBucket(ctx, {
    addressedName: bucketNameAt(located),
    virtual: located.virtual,
  });
  return bucket;
}

// CORS for the console where its pages have another origin than the storage protocol (`SVC_ADMIN_LISTEN`, `SVC_CONSOLE_ORIGINS`). Only
// requests with a signature get these headers: a page of the console reads nothing of an anonymous caller, and no cookie is accepted here.

type Settings = Pick<Config, 'SVC_ADMIN_LISTEN' | 'SVC_CONSOLE_ORIGINS'>;

interface Asked {
  readonly wire: Wire;
  readonly query: Query;
  /** Of a path outside of the storage protocol. */
  readonly area: string | undefined;
}

const preflightSeconds = 600;

/** With a listener of its own the console has the host of the request, and the port of that listener. */
function isConsoleOrigin(
  { SVC_ADMIN_LISTEN: admin, SVC_CONSOLE_ORIGINS: stated }: Settings,
  wire: Wire,
): boolean {
  const origin = wire.headers.get('origin');
  if (origin === undefined) return false;
  if (stated.includes(origin)) return true;
  const host = wire.headers.get('host')?.replace(/:\d+$/, '').toLowerCase();
  return admin !== undefined && host !== undefined && origin === formatOrigin(wire.secure, host, admin.port);
}

/** As browsers write it: the default port is left out. */
function formatOrigin(secure: boolean, host: string, port: number): string {
  const isDefault = port === (secure ? 443 : 80);
  return `${secure ? 'https' : 'http'}://${host}${isDefault ? '' : `:${port}`}`;
}

const isSigned = ({ wire, query }: Asked, headers: readonly string[]): boolean =>
  headers.includes('authorization') ||
  wire.headers.has('authorization') ||
  dialects.some(({ queryPrefix }) => query.has(`${queryPrefix}Signature`));

/** The headers that let the console read a reply; undefined for requests of others. */
function consoleHeaders(config: Settings, asked: Asked): readonly HeaderPair[] | undefined {
  const { wire, area } = asked;
  if (area !== undefined || !isConsoleOrigin(config, wire) || !isSigned(asked, [])) return undefined;
  return [
    ['Access-Control-Allow-Origin', wire.headers.get('origin') ?? ''],
    // Every header, also user metadata: without cookies the asterisk stands for all.
    ['Access-Control-Expose-Headers', '*'],
    varyHeader,
  ];
}

/** The reply to a preflight of the console; undefined for every other request. */
export function consolePreflight(config: Settings, asked: Asked): Reply | undefined {
  const { wire, area } = asked;
  if (wire.method !== 'OPTIONS' || area !== undefined || !isConsoleOrigin(config, wire)) return undefined;
  const crossOrigin = readCrossOrigin(wire);
  if (crossOrigin === undefined || crossOrigin.headers.length > headerNamesMax) return undefined;
  if (!isSigned(asked, crossOrigin.headers)) return undefined;
  return {
    status: 204,
    headers: [
      ['Access-Control-Allow-Origin', crossOrigin.origin],
      ['Access-Control-Allow-Methods', 'GET, HEAD, PUT, POST, DELETE'],
      ...(crossOrigin.headers.length === 0
        ? []
        : [['Access-Control-Allow-Headers', crossOrigin.headers.join(', ')] as const]),
      ['Access-Control-Max-Age', String(preflightSeconds)],
      varyHeader,
    ],
  };
}

/**
 * Websites (spec "Website", design §7.20): at a website's host a visitor asks for pages, and an index stands for a bucket
 * or a directory in it. Pages are read as GetObject reads them, by nobody: whatever a visitor signs is not looked at.
 */
import { isCharged } from '../auth/requester-pays.ts';
import type { Context } from '../context.ts';
import { openBucket } from '../domain/buckets.ts';
import { readDocument } from '../domain/documents.ts';
import { bucketWebsite, type Website } from '../domain/families.ts';
import { type Elsewhere, pageOf, redirectOf, redirectOfError } from '../domain/website.ts';
import { fail, Refusal } from '../errors/refusal.ts';
import { noBody } from '../handlers/body.ts';
import type { Call } from '../handlers/call.ts';
import { assertKey } from '../handlers/key.ts';
import { GetObject, HeadObject } from '../handlers/object/get-object.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { noParameters } from '../protocol/action-query.ts';
import { statusOf } from '../protocol/errors.ts';
import { describeOperation } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { Query, type Wire, WireHeaders } from '../protocol/wire.ts';
import { permit } from './permit.ts';
import type { Trace } from './trace.ts';

type Asking = Omit<Call, 'operation' | 'parameters' | 'record' | 'body'>;
interface Shown {
  readonly bucket: BucketRow;
  readonly trace: Pick<Trace, 'operation'>;
  /** A page may say that it is elsewhere. */
  readonly follows?: boolean;
}

const noQuery = new Query('');

/** The index of the bucket, or of a directory in it, where this is what the storage address is asked for like a site. */
export const asksForIndex = (
  { wire, identity, query, key }: Asking,
  { documents }: Pick<BucketRow, 'documents'>,
): boolean =>
  bucketWebsite.name in documents &&
  identity === undefined &&
  wire.method === 'GET' &&
  query.pairs.length === 0 &&
  (key === '' || key.endsWith('/'));

/** @returns undefined where the site has no index */
export async function showIndex(ctx: Context, call: Asking, shown: Shown): Promise<Reply | undefined> {
  const site = await readDocument(ctx, shown.bucket, bucketWebsite);
  const key = site && pageOf(site, call.key);
  return key === undefined ? undefined : readPage(ctx, { ...call, key }, shown);
}

/** A request at the host of a website. @throws MethodNotAllowed, NoSuchBucket, NoSuchWebsiteConfiguration, and what the page is refused with */
export async function visitSite(ctx: Context, call: Asking, trace: Trace): Promise<Reply> {
  const { wire, key, bucketName } = call;
  if (wire.method !== 'GET' && wire.method !== 'HEAD')
    throw fail('MethodNotAllowed', {
      elements: { Method: wire.method, ResourceType: 'OBJECT' },
      headers: { Allow: 'GET, HEAD' },
    });
  const bucket = await openBucket(ctx, bucketName);
  trace.bucket = bucket;
  const site = await readDocument(ctx, bucket, bucketWebsite);
  if (site === undefined) throw fail('NoSuchWebsiteConfiguration', { elements: { BucketName: bucketName } });
  const elsewhere = redirectOf(site, key);
  if (elsewhere !== undefined) return sendTo(wire, elsewhere);
  const visit = { ...call, own: new Map<string, string>() };
  const shown = { bucket, trace };
  try {
    return await readPage(ctx, { ...visit, key: pageOf(site, key) ?? key }, { ...shown, follows: true });
  } catch (cause) {
    if (cause instanceof Refusal) return afterRefusal(ctx, visit, { ...shown, site, refusal: cause });
    throw cause;
  }
}

async function readPage(ctx: Context, call: Asking, { bucket, trace, follows }: Shown): Promise<Reply> {
  const operation = call.wire.method === 'HEAD' ? 'HeadObject' : 'GetObject';
  trace.operation = operation;
  assertKey(call.key);
  const nothingMore = { query: noQuery, parameters: noParameters, record: undefined };
  const asked = { ...call, ...nothingMore, operation } as const;
  const target = await permit(ctx, asked, {
    row: describeOperation(operation),
    bucket,
    body: undefined,
    ahead: undefined,
  });
  // Visitors are nobody, and nobody pays.
  await isCharged(ctx, asked, bucket);
  const redirect = target?.headers.system?.['website-redirect-location'];
  if (follows && redirect !== undefined) return { status: 301, headers: [['Location', redirect]] };
  const read = operation === 'HeadObject' ? HeadObject : GetObject;
  return read(ctx, { ...asked, body: noBody, bucket, target });
}

interface Refused extends Shown {
  readonly site: Website;
  readonly refusal: Refusal;
}

/** A directory without its slash, a rule for the error, the page for errors, or the error as it is. */
async function afterRefusal(ctx: Context, call: Asking, refused: Refused): Promise<Reply> {
  const { site, refusal } = refused;
  const { key, wire } = call;
  const status = statusOf(refusal.code);
  const isAbsent = status === 403 || status === 404;
  const index = key.endsWith('/') ? undefined : pageOf(site, `${key}/`);
  if (isAbsent && key !== '' && index !== undefined && (await isThere(ctx, { ...call, key: index }, refused)))
    return sendTo(wire, { path: { written: '', key: `${key}/` }, code: 302 });
  const elsewhere = redirectOfError(site, key, status);
  if (elsewhere !== undefined) return sendTo(wire, elsewhere);
  // What the visitor's own conditions and ranges led to is theirs to know.
  if (site.ErrorDocument === undefined || status >= 500 || status === 412 || status === 416) throw refusal;
  try {
    const page = { ...call, key: site.ErrorDocument.Key, wire: unconditional(wire) };
    return { ...(await readPage(ctx, page, refused)), status };
  } catch (cause) {
    if (cause instanceof Refusal) throw refusal;
    throw cause;
  }
}

async function isThere(ctx: Context, call: Asking, shown: Shown): Promise<boolean> {
  try {
    // A look of ours is not what was asked for.
    const look = { ...shown, trace: { operation: '' } };
    await readPage(ctx, { ...call, wire: { ...unconditional(call.wire), method: 'HEAD' } }, look);
    return true;
  } catch (cause) {
    if (cause instanceof Refusal) return false;
    throw cause;
  }
}

/** The request without what narrows down its own page: another one is read in its place. */
function unconditional(wire: Wire): Wire {
  const kept = [...wire.headers.names()].filter((name) => name !== 'range' && !name.startsWith('if-'));
  const flat = kept.flatMap((name) => wire.headers.all(name).flatMap((value) => [name, value]));
  return { ...wire, headers: new WireHeaders(flat) };
}

/** An absolute address: a path alone that begins with two slashes would lead to another host. */
function sendTo(wire: Wire, { protocol, host, path, code }: Elsewhere): Reply {
  const scheme = protocol ?? (wire.secure ? 'https' : 'http');
  const authority = host ?? wire.headers.get('host') ?? '';
  const key = path.key.split('/').map(encodeURIComponent).join('/');
  const location = `${scheme}://${authority}/${asWritten(path.written)}${key}`;
  return { status: code, headers: [['Location', location]] };
}

/** The owner's text may hold a query or a fragment, and escapes of its own; only what no address can hold is escaped. */
const asWritten = (text: string): string =>
  text.replace(/[^\x21-\x7e]+/g, (part) => encodeURIComponent(part.toWellFormed()));

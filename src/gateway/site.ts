/**
 * Websites: at a website's host a request is for a page, and the index document is served for a bucket or a directory in it. Pages are
 * read as GetObject reads them, by an anonymous caller: a visitor's signature is ignored.
 */
import { isCharged } from '../auth/authorize.ts';
import { fail, Refusal } from '../base/errors.ts';
import type { Context } from '../context.ts';
import { openBucket } from '../domain/common/buckets.ts';
import { readDocument } from '../domain/configurations/documents.ts';
import { bucketWebsite, type RoutingRule, type Website } from '../domain/configurations/families.ts';
import { GetObject, HeadObject } from '../handlers/object/get-object.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { errorStatus } from '../protocol/errors.ts';
import { describeOperation } from '../protocol/operations/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { asciiHeader, noParameters, Query, type Wire, WireHeaders } from '../protocol/wire.ts';
import { emptyBody } from '../request/body.ts';
import { assertKey } from '../request/parameters.ts';
import {
  admitToBucket,
  establish,
  type Identified,
  type InBucket,
  type RequestContext,
} from '../request/request.ts';
import { permit } from './permit.ts';

interface Visit {
  readonly bucket: BucketRow;
  readonly visitor: Identified;
  /** The gateway reads for itself: logs and metrics do not name this operation. */
  readonly isOwnRead?: boolean;
  /** Whether a page may redirect. */
  readonly follows?: boolean;
}

const noQuery = new Query('');

/** @returns undefined where the site has no index */
export async function showIndex(ctx: Context, request: Identified & InBucket): Promise<Reply | undefined> {
  const { bucket } = request;
  const site = await readDocument(ctx, bucket, bucketWebsite);
  const key = site && findPage(site, request.key);
  return key === undefined ? undefined : readPage(ctx, { ...request, key }, { bucket, visitor: request });
}

/**
 * A request at the host of a website.
 * @throws MethodNotAllowed, NoSuchBucket, NoSuchWebsiteConfiguration, and what the
 * page is refused with
 */
export async function visitSite(ctx: Context, request: Identified): Promise<Reply> {
  const { wire, key, bucketName } = request;
  if (wire.method !== 'GET' && wire.method !== 'HEAD')
    throw fail('MethodNotAllowed', {
      elements: { Method: wire.method, ResourceType: 'OBJECT' },
      headers: { Allow: 'GET, HEAD' },
    });
  const bucket = await openBucket(ctx, bucketName);
  establish(request, { bucket });
  const site = await readDocument(ctx, bucket, bucketWebsite);
  if (site === undefined) throw fail('NoSuchWebsiteConfiguration', { elements: { BucketName: bucketName } });
  const elsewhere = findRedirect(site, key);
  if (elsewhere !== undefined) {
    await admitToBucket(ctx, request);
    return sendTo(wire, elsewhere);
  }
  const asked = { ...request, own: new Map<string, string>() };
  const visit = { bucket, visitor: request };
  try {
    return await readPage(ctx, { ...asked, key: findPage(site, key) ?? key }, { ...visit, follows: true });
  } catch (cause) {
    if (cause instanceof Refusal) return afterRefusal(ctx, asked, { ...visit, site, refusal: cause });
    throw cause;
  }
}

async function readPage(
  ctx: Context,
  request: Identified,
  { bucket, visitor, isOwnRead, follows }: Visit,
): Promise<Reply> {
  const operation = request.wire.method === 'HEAD' ? 'HeadObject' : 'GetObject';
  if (isOwnRead !== true) establish(visitor, { operation });
  assertKey(request.key);
  const asked = establish(request, {
    operation,
    row: describeOperation(operation),
    query: noQuery,
    parameters: noParameters,
    record: undefined,
    bucket,
    body: emptyBody,
  });
  const target = await enterPage(ctx, asked, visitor);
  const redirect = target?.headers.system?.['website-redirect-location'];
  if (follows && redirect !== undefined)
    return { status: 301, headers: [['Location', asciiHeader(redirect)]] };
  const read = operation === 'HeadObject' ? HeadObject : GetObject;
  return read(ctx, establish(asked, { target }));
}

/** A visit has one place under the limit of the bucket, however many pages the gateway reads for it. */
async function enterPage(
  ctx: Context,
  asked: Parameters<typeof permit>[1] & InBucket & RequestContext,
  visitor: RequestContext,
): ReturnType<typeof permit> {
  const { admission, isPermitted } = visitor;
  establish(asked, { admission, isPermitted });
  try {
    const target = await permit(ctx, asked);
    // Visitors are anonymous, and Requester Pays refuses anonymous callers.
    await isCharged(ctx, asked, asked.bucket);
    await admitToBucket(ctx, asked);
    return target;
  } finally {
    establish(visitor, { admission: asked.admission, isPermitted: asked.isPermitted });
  }
}

interface Refused extends Visit {
  readonly site: Website;
  readonly refusal: Refusal;
}

/** The redirect to a directory, a routing rule for the error, the error document, or the error itself. */
async function afterRefusal(ctx: Context, request: Identified, refused: Refused): Promise<Reply> {
  const { site, refusal, visitor } = refused;
  const { key, wire } = request;
  const status = errorStatus(refusal.code);
  const isAbsent = status === 403 || status === 404;
  const index = key.endsWith('/') ? undefined : findPage(site, `${key}/`);
  if (
    isAbsent &&
    key !== '' &&
    index !== undefined &&
    (await isThere(ctx, { ...request, key: index }, refused))
  )
    return sendTo(wire, { path: { written: '', key: `${key}/` }, code: 302 });
  const elsewhere = redirectOfError(site, key, status);
  if (elsewhere !== undefined) {
    await admitToBucket(ctx, visitor);
    return sendTo(wire, elsewhere);
  }
  // A result of the visitor's own conditions and ranges is returned as it is.
  if (site.ErrorDocument === undefined || status >= 500 || status === 412 || status === 416) throw refusal;
  try {
    const page = { ...request, key: site.ErrorDocument.Key, wire: unconditional(wire) };
    return { ...(await readPage(ctx, page, refused)), status };
  } catch (cause) {
    if (cause instanceof Refusal) throw refusal;
    throw cause;
  }
}

async function isThere(ctx: Context, request: Identified, visit: Visit): Promise<boolean> {
  try {
    const wire = { ...unconditional(request.wire), method: 'HEAD' };
    await readPage(ctx, { ...request, wire }, { ...visit, isOwnRead: true });
    return true;
  } catch (cause) {
    if (cause instanceof Refusal) return false;
    throw cause;
  }
}

/** The request without what narrows down its own page: another one is read in its place. */
function unconditional(wire: Wire): Wire {
  const retained = [...wire.headers.names()].filter((name) => name !== 'range' && !name.startsWith('if-'));
  const flat = retained.flatMap((name) => wire.headers.all(name).flatMap((value) => [name, value]));
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

/** The owner's text may contain a query, a fragment and escapes. Only characters that no address may contain are escaped. */
const asWritten = (text: string): string =>
  text.replace(/[^\x21-\x7e]+/g, (part) => encodeURIComponent(part.toWellFormed()));

// Decides the answer of a website to a key: a page, a redirect, or the error document. The order is the public service's: the redirect of
// all requests, routing rules without an error code, the page, routing rules with its error code.

interface Elsewhere {
  readonly protocol?: string | undefined;
  readonly host?: string | undefined;
  /** The beginning of the path as the site's owner wrote it, and the rest of the key. */
  readonly path: { readonly written: string; readonly key: string };
  readonly code: number;
}

const moved = 301;

/** The redirect before any page is read. */
export function findRedirect(site: Website, key: string): Elsewhere | undefined {
  const all = site.RedirectAllRequestsTo;
  if (all !== undefined)
    return { protocol: all.Protocol, host: all.HostName, path: { written: '', key }, code: moved };
  return ruleFor(site, key, undefined);
}

/** The redirect because the page could not be read. @param error the HTTP status */
export const redirectOfError = (site: Website, key: string, error: number): Elsewhere | undefined =>
  ruleFor(site, key, String(error));

interface Asked {
  readonly key: string;
  readonly error: string | undefined;
}
type Condition = NonNullable<RoutingRule['Condition']>;

/** Each is asked, also where the rule does not have it. */
const isMet: Readonly<Record<keyof Condition, (value: string | undefined, asked: Asked) => boolean>> = {
  KeyPrefixEquals: (prefix = '', { key }) => key.startsWith(prefix),
  HttpErrorCodeReturnedEquals: (code, { error }) => code === error,
};
// The cast: the keys of a literal.
const conditionNames = Object.keys(isMet) as readonly (keyof Condition)[];

function ruleFor({ RoutingRules = [] }: Website, key: string, error: string | undefined) {
  const rule = RoutingRules.find(({ Condition = {} }) =>
    conditionNames.every((name) => isMet[name](Condition[name], { key, error })),
  );
  return rule && follow(rule, key);
}

function follow({ Condition, Redirect }: RoutingRule, key: string): Elsewhere {
  const { Protocol, HostName, ReplaceKeyWith, ReplaceKeyPrefixWith, HttpRedirectCode } = Redirect;
  const prefix = Condition?.KeyPrefixEquals ?? '';
  let path = { written: '', key };
  if (ReplaceKeyWith !== undefined) path = { written: ReplaceKeyWith, key: '' };
  else if (ReplaceKeyPrefixWith !== undefined)
    path = { written: ReplaceKeyPrefixWith, key: key.slice(prefix.length) };
  const code = HttpRedirectCode === undefined ? moved : Number(HttpRedirectCode);
  return { protocol: Protocol, host: HostName, path, code };
}

/** The key of the page; for a directory, that of its index document. Undefined when the site has no index document. */
export function findPage({ IndexDocument }: Website, key: string): string | undefined {
  if (key !== '' && !key.endsWith('/')) return key;
  return IndexDocument === undefined ? undefined : key + IndexDocument.Suffix;
}

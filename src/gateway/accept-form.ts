/**
 * Fields of a form replace the headers of other requests: the signature, the key, the object's metadata. Headers of the form's own
 * request that could change what is stored are ignored, because the form's policy does not sign them.
 */

import { authenticateForm, checkPostPolicy, type LengthRange, parsePostPolicy } from '../auth/post-policy.ts';
import { fail } from '../base/errors.ts';
import { tap } from '../base/tap.ts';
import { toNetwork } from '../base/text/ip-address.ts';
import type { Context } from '../context.ts';
import { amz, type Dialect, replyDialect } from '../protocol/dialect.ts';
import { nameFile, parseBoundary, readForm } from '../protocol/form-data.ts';
import { readXml } from '../protocol/formats/codec.ts';
import { tagging } from '../protocol/schemas/object.ts';
import { headerText, Query, systemHeaders, type Wire, WireHeaders } from '../protocol/wire.ts';
import { reserveBuffered } from '../request/body.ts';
import { assertKey, ownHeaders } from '../request/parameters.ts';
import type { Authorized, Identified } from '../request/request.ts';
import { openBucketKey } from './find-bucket.ts';
import { authenticationContext } from './identify.ts';

type Accepted = Pick<
  Authorized,
  | 'wire'
  | 'dialect'
  | 'own'
  | 'parameters'
  | 'identity'
  | 'renew'
  | 'signed'
  | 'signedWith'
  | 'key'
  | 'payload'
>;

const noQuery = new Query('');

/** @throws what the form, its signature or its policy is refused with; none of the file has been read then */
export async function acceptForm(ctx: Context, request: Identified): Promise<Accepted> {
  const { wire, identity, payload, bucketName } = request;
  const boundary = parseBoundary(wire.headers.get('content-type'));
  if (identity !== undefined)
    throw fail('InvalidArgument', 'A form is signed by its fields, and not by its headers or its query.');
  // The signer is not known before the fields are read. Their sender may be anyone, also where the bucket lets in no anonymous caller.
  request.bufferedFor = { account: `network ${toNetwork(wire.remote)}`, isAnonymous: true };
  const reserve = (bytes: number): void => reserveBuffered(ctx, request, bytes);
  const form = await readForm(payload.content, boundary, reserve);
  const fields: ReadonlyMap<string, string> = nameFile(form);
  reserve(Math.max(0, textLength(fields) - textLength(form.fields)));
  const key = readKey(fields);
  const bucketKey = openBucketKey(ctx, request);
  const authentication = authenticationContext(ctx);
  const author = await authenticateForm(authentication, fields, { secrets: bucketKey });
  const dialect = author?.dialect ?? replyDialect(fields.keys());
  let lengths: LengthRange | undefined;
  if (author !== undefined) {
    const policy = parsePostPolicy(author.policy);
    const { exempt } = author;
    const meant = new Map([...fields, ['bucket', bucketName]]);
    const { clock } = authentication;
    checkPostPolicy(policy, { fields: meant, exempt, now: clock.now(author.signed.at) });
    lengths = policy.lengths;
  }
  const named = fields.get('bucket');
  if (named !== undefined && named !== bucketName)
    throw fail('AccessDenied', `The form is for the bucket ${named}, and was sent to ${bucketName}.`);
  assertKey(key);
  const described = { ...wire, headers: readFormHeaders(wire, fields, dialect) };
  return {
    wire: described,
    dialect,
    own: ownHeaders(described, noQuery, dialect),
    parameters: fields,
    identity: author?.identity,
    renew: author?.renew,
    signed: author?.signed,
    signedWith: bucketKey?.signedWith,
    key,
    payload: { ...payload, length: undefined, content: bounded(form.file.content, lengths) },
  };
}

function textLength(fields: ReadonlyMap<string, string>): number {
  let length = 0;
  for (const value of fields.values()) length += value.length;
  return length;
}

function readKey(fields: ReadonlyMap<string, string>): string {
  const key = fields.get('key');
  if (key === undefined || key === '')
    throw fail('InvalidArgument', {
      message:
        "Bucket POST must contain a field named 'key'.  If it is specified, please check the order of the fields.",
      elements: { ArgumentName: 'key', ArgumentValue: '' },
    });
  return key;
}

/** Headers of the form's own request that are facts about it and describe no object. */
const retained = ['host', 'user-agent', 'referer', 'origin'];
/** Fields that replace the header of the same name. */
const described: ReadonlySet<string> = new Set([...systemHeaders, 'content-md5']);

function readFormHeaders(
  { headers }: Wire,
  fields: ReadonlyMap<string, string>,
  dialect: Dialect | undefined,
): WireHeaders {
  const flat = retained.flatMap((name) => headers.all(name).flatMap((value) => [name, value]));
  const prefix = (dialect ?? amz).headerPrefix;
  for (const [name, value] of fields) {
    const header = toHeaderName(name, prefix);
    if (header !== undefined)
      flat.push(header, headerText(header, name === 'tagging' ? tagQuery(value) : value));
  }
  return new WireHeaders(flat);
}

function toHeaderName(name: string, prefix: string): string | undefined {
  if (name === 'acl' || name === 'tagging') return prefix + name;
  if (described.has(name)) return name;
  return replyDialect([name]) === undefined ? undefined : name;
}

/** Forms contain tags as XML, all other requests as a query. */
function tagQuery(xml: string): string {
  const { TagSet } = readXml(tagging, 'Tagging', new TextEncoder().encode(xml), { maxBytes: xml.length * 4 });
  return TagSet.map(({ Key, Value }) => `${encodeURIComponent(Key)}=${encodeURIComponent(Value)}`).join('&');
}

/** Refuses a file that is too large once it exceeds the limit, and one that is too small at its end; stores neither. */
function bounded(
  content: AsyncIterable<Uint8Array>,
  lengths: LengthRange | undefined,
): AsyncIterable<Uint8Array> {
  if (lengths === undefined) return content;
  let size = 0;
  return tap(content, {
    see(piece) {
      size += piece.length;
      if (size > lengths.max)
        throw fail('EntityTooLarge', { elements: { ProposedSize: size, MaxSizeAllowed: lengths.max } });
    },
    end() {
      if (size < lengths.min)
        throw fail('EntityTooSmall', { elements: { ProposedSize: size, MinSizeAllowed: lengths.min } });
    },
  });
}

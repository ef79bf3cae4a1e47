/**
 * Configurations that are one stored document with Get, Put and Delete: a family is declared in a dozen
 * lines, and its three handlers derive.
 */
import type { Awaitable } from '../../base/awaitable.ts';
import type { Context } from '../../context.ts';
import { changeDocument, type Family, readDocument } from '../../domain/configurations/documents.ts';
import type { ErrorCode } from '../../errors/codes.ts';
import { fail } from '../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../gateway/request.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { readXml, type Xml } from '../../protocol/formats/codec.ts';
import type { XmlLimits } from '../../protocol/formats/xml-parse.ts';
import { bodyMaxDefault, describeOperation } from '../../protocol/operations/operations.ts';
import type { HeaderPair, Reply } from '../../protocol/reply/reply.ts';
import { emptyReply, xmlReply } from './xml-reply.ts';

export interface DocumentRules<T> {
  readonly family: Family<T>;
  /** The root element. */
  readonly root: string;
  readonly schema: Xml<T>;
  /** The answer for an unset configuration: an error code, or the default document. */
  readonly unset: ErrorCode | T;
  /** Further rules than the schema's, and what is stored where it is not what was sent. Refusals are thrown. */
  readonly validate?: (ctx: Context, request: AuthorizedInBucket, value: T) => Awaitable<T>;
  /** Refuses a change that contradicts the rest of the bucket's row; called with the row that the commit replaces. */
  readonly amend?: (row: BucketRow, value: T | undefined, ctx: Context) => Awaitable<BucketRow>;
  /** The document that means "not set" (an empty one), which removes instead of storing. */
  readonly isEmpty?: (value: T) => boolean;
  /** Side changes that are committed together with a Put. */
  readonly then?: (ctx: Context, request: AuthorizedInBucket, value: T) => Promise<readonly SideChange[]>;
  readonly limits?: Partial<XmlLimits>;
  /** The status of a successful Put; 200 except where the public API has 204. */
  readonly putStatus?: 200 | 204;
  /** Headers of the reply to Get and Put that show what the document does not. */
  readonly headers?: (value: T) => readonly HeaderPair[];
}

type Handle = (ctx: Context, request: AuthorizedInBucket) => Promise<Reply>;
export interface DocumentHandlers {
  readonly get: Handle;
  readonly put: Handle;
  readonly remove: Handle;
}

export function document<T>(rules: DocumentRules<T>): DocumentHandlers {
  const { family, root, schema, unset, amend } = rules;
  const change = async (ctx: Context, request: AuthorizedInBucket, value: T | undefined): Promise<boolean> =>
    changeDocument(ctx, {
      bucket: request.bucket,
      record: request.record,
      family,
      text: value === undefined ? undefined : JSON.stringify(value),
      ...(amend === undefined ? {} : { amend: (row) => amend(row, value, ctx) }),
      ...(value === undefined || rules.then === undefined
        ? {}
        : { then: await rules.then(ctx, request, value) }),
    });
  return {
    async get(ctx, { bucket }) {
      const value = await readDocument(ctx, bucket, family);
      if (value !== undefined) return xmlReply(schema, root, value, rules.headers?.(value));
      if (typeof unset !== 'string') return xmlReply(schema, root, unset);
      throw fail(unset as ErrorCode, { elements: { BucketName: bucket.name } });
    },
    async put(ctx, request) {
      const value = await read(ctx, request, rules);
      await change(ctx, request, rules.isEmpty?.(value) ? undefined : value);
      return emptyReply(rules.putStatus ?? 200, rules.headers?.(value));
    },
    async remove(ctx, request) {
      await change(ctx, request, undefined);
      return emptyReply(204);
    },
  };
}

async function read<T>(ctx: Context, request: AuthorizedInBucket, rules: DocumentRules<T>): Promise<T> {
  if (request.body.length === 0) throw fail('MissingRequestBodyError');
  const maxBytes = describeOperation(request.operation).bodyMax ?? bodyMaxDefault;
  const sent = readXml(rules.schema, rules.root, request.body, { maxBytes, ...rules.limits });
  return rules.validate === undefined ? sent : rules.validate(ctx, request, sent);
}

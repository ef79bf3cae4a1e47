/**
 * Configurations that are one stored document with Get, Put and Delete: a family is declared in a dozen
 * lines; its three handlers, and its form for the operator API, derive.
 */

import type { Caller } from '../../auth/authorize.ts';
import type { Awaitable } from '../../base/awaitable.ts';
import { type ErrorCode, fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/common/recorder.ts';
import { changeDocument, type Family, readDocument } from '../../domain/configurations/documents.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { readXml, requireJson } from '../../protocol/formats/codec.ts';
import type { XmlLimits } from '../../protocol/formats/xml-parse.ts';
import { bodyMaxDefault, describeOperation } from '../../protocol/operations/operations.ts';
import type { HeaderPair, Reply } from '../../protocol/reply.ts';
import type { ConfigurationSchema } from '../../protocol/schemas/common.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { emptyReply, xmlReply } from '../handler.ts';
import { type Checks, firstRefusal } from './checks.ts';

interface DocumentRules<T, F extends string> {
  readonly family: Family<T>;
  readonly schema: ConfigurationSchema<F, T>;
  /** The answer for an unset configuration: an error code, or the default document. */
  readonly unset: ErrorCode | T;
  /** Further rules than the schema's, and what is stored where it is not what was sent. Refusals are thrown. */
  readonly validate?: (ctx: Context, request: Configuring, value: T) => Awaitable<T>;
  /** Refuses a change that contradicts the rest of the bucket's row; called with the row that the commit replaces. */
  readonly amend?: (row: BucketRow, value: T | undefined, ctx: Context) => Awaitable<BucketRow>;
  /** The document that means "not set" (an empty one), which removes instead of storing. */
  readonly isEmpty?: (value: T) => boolean;
  /** Side changes that are committed together with a Put. */
  readonly then?: (ctx: Context, request: Configuring, value: T) => Promise<readonly SideChange[]>;
  /** What follows a Put. */
  readonly after?: (ctx: Context, request: Configuring) => Promise<void>;
  /** Where the JSON has a field for what XML clients send in a header. */
  readonly headerField?: HeaderField<T>;
  readonly limits?: Partial<XmlLimits>;
  /** The status of a successful Put; 200 except where the public API has 204. */
  readonly putStatus?: 200 | 204;
  /** Headers of the reply to Get and Put that show what the document does not. */
  readonly headers?: (value: T) => readonly HeaderPair[];
}

interface HeaderField<T> {
  readonly field: string;
  /** The bare name. */
  readonly header: string;
  readonly read: (value: T) => string | undefined;
}

type Handle = (ctx: Context, request: AuthorizedInBucket) => Promise<Reply>;
interface DocumentHandlers<T, F extends string> {
  readonly get: Handle;
  readonly put: Handle;
  readonly remove: Handle;
  readonly configuration: Configuration<T, F>;
}

export function document<T, F extends string>(rules: DocumentRules<T, F>): DocumentHandlers<T, F> {
  const { family, schema, unset, amend } = rules;
  const change = async (ctx: Context, request: Configuring, value: T | undefined): Promise<boolean> =>
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
  const prepare = async (ctx: Context, request: Configuring, sent: T) => {
    const value = rules.validate === undefined ? sent : await rules.validate(ctx, request, sent);
    const stored = rules.isEmpty?.(value) ? undefined : value;
    if (amend !== undefined) await request.checks.at({ path: '' }, () => amend(request.bucket, stored, ctx));
    const commit = async (): Promise<void> => {
      await change(ctx, request, stored);
      await rules.after?.(ctx, request);
    };
    return { value, commit };
  };
  return {
    configuration: {
      family: schema.family,
      unset: unset as ErrorCode | (T & object),
      async read(ctx, bucket) {
        const value = await readDocument(ctx, bucket, family);
        return value === undefined ? undefined : showHeader(rules, value);
      },
      prepare: (ctx, request, { value }) => {
        const { own, rest } = takeHeader(rules, value);
        return prepare(ctx, { ...request, own }, rest);
      },
      async remove(ctx, request) {
        await change(ctx, request, undefined);
      },
    },
    async get(ctx, { bucket }) {
      const value = await readDocument(ctx, bucket, family);
      if (value !== undefined) return xmlReply(schema, schema.root, value, rules.headers?.(value));
      if (typeof unset !== 'string') return xmlReply(schema, schema.root, unset);
      throw fail(unset as ErrorCode, { elements: { BucketName: bucket.name } });
    },
    async put(ctx, request) {
      const { value } = await storeConfiguration(ctx, request, { prepare, input: read(request, rules) });
      return emptyReply(rules.putStatus ?? 200, rules.headers?.(value));
    },
    async remove(ctx, request) {
      await change(ctx, { ...request, checks: firstRefusal }, undefined);
      return emptyReply(204);
    },
  };
}

function read<T>(
  request: AuthorizedInBucket,
  { schema, limits }: Pick<DocumentRules<T, string>, 'schema' | 'limits'>,
): T {
  const maxBytes = describeOperation(request.operation).bodyMax ?? bodyMaxDefault;
  return readXml(schema, schema.root, request.body, { maxBytes, ...limits });
}

/** The document with its field for a header. */
function showHeader<T>({ headerField, schema }: DocumentRules<T, string>, value: T): unknown {
  if (headerField === undefined) return value;
  const { field, read: readField } = headerField;
  const visible: Record<string, unknown> = {};
  const names = Object.keys(requireJson(schema).schema.properties ?? {});
  for (const [name, each] of Object.entries(value as object)) if (names.includes(name)) visible[name] = each;
  const text = readField(value);
  return text === undefined ? visible : { ...visible, [field]: text };
}

/** The document without its field for a header, and the headers that the field stands for. */
function takeHeader<T>({ headerField }: Pick<DocumentRules<T, string>, 'headerField'>, value: T) {
  if (headerField === undefined) return { own: new Map<string, string>(), rest: value };
  const { [headerField.field]: text, ...rest } = value as Readonly<Record<string, unknown>>;
  const own = new Map(typeof text === 'string' ? [[headerField.header, text]] : []);
  // The cast: the schema of the JSON is that of the XML and this field.
  return { own, rest: rest as T };
}

// A configuration of a bucket as the operator API reads and writes it. Its JSON is the value that the XML of the public
// API is read into, so both are checked by the same rules and stored as the same record.

/** What the rules of a configuration need of the request that brings it. */
export interface Configuring extends Caller, Pick<AuthorizedInBucket, 'bucket' | 'requestId' | 'signal'> {
  readonly record?: Recorder | undefined;
  readonly checks: Checks;
}

/** A configuration that has passed its checks. */
export interface Prepared {
  /** Stores it; the checks that rest on the bucket's row are repeated with the row that the commit replaces. */
  commit(): Promise<void>;
}

/** Stores what a client of the public API has sent. @throws the refusal of the first part */
export async function storeConfiguration<Input, P extends Prepared>(
  ctx: Context,
  request: AuthorizedInBucket,
  {
    prepare,
    input: supplied,
  }: {
    readonly prepare: (ctx: Context, request: Configuring, supplied: Input) => Promise<P>;
    readonly input: Input;
  },
): Promise<P> {
  const prepared = await prepare(ctx, { ...request, checks: firstRefusal }, supplied);
  await prepared.commit();
  return prepared;
}

/** A configuration of a bucket. The operator API finds it by its family. */
export interface Configuration<in T, out F extends string = string> {
  readonly family: F;
  /** What is set; undefined where nothing is. Of a family with ids: the one with the id, or all of them by id. */
  read(ctx: Context, bucket: BucketRow, id?: string): Awaitable<unknown>;
  /** The answer for one that is not set: an error code, or the default document. */
  readonly unset: ErrorCode | object;
  /** @throws the refusal of the first part, unless `checks` gathers them; then `commit` must not be called */
  prepare(
    ctx: Context,
    request: Configuring,
    supplied: { readonly value: T; readonly id?: string },
  ): Promise<Prepared>;
  /** Absent where the configuration can be changed, but not removed. */
  remove?(ctx: Context, request: Configuring, id?: string): Promise<void>;
}

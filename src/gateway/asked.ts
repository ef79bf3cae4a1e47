/**
 * What a request asks for as facts of its judgement: tags and locks that it wants to set, where a bucket is to lie. Where
 * they stand in the body, that is read before the caller is judged, and they count like the headers that say the same.
 */

import { creationIn } from '../handlers/bucket/create-bucket.ts';
import { inventoryIn } from '../handlers/bucket/inventory.ts';
import type { Call } from '../handlers/call.ts';
import { header } from '../handlers/call.ts';
import { legalHoldIn } from '../handlers/object/legal-hold.ts';
import { retentionIn } from '../handlers/object/retention.ts';
import { type Tags, tagsIn, tagsOf } from '../handlers/object/tagging-header.ts';
import type { Operation, OperationName } from '../protocol/operations.ts';

interface Asked {
  readonly requestTags?: Tags;
  /** By condition key. */
  readonly named?: ReadonlyMap<string, string | readonly string[]>;
  /** Actions that it must be allowed beside its own. */
  readonly along?: readonly string[];
  /** In place of the request's own headers of these bare names. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

const inBody: Partial<Record<OperationName, (body: Uint8Array) => Asked>> = {
  CreateBucket: (body) => {
    const { LocationConstraint = '', Tags = [] } = creationIn(body);
    const named = new Map<string, string | readonly string[]>([
      ...Tags.map(({ Key, Value }) => [`aws:RequestTag/${Key}`, Value] as const),
      ['aws:TagKeys', Tags.map(({ Key }) => Key)],
    ]);
    if (LocationConstraint !== '') named.set('s3:LocationConstraint', LocationConstraint);
    return { named, along: Tags.length === 0 ? [] : ['s3:TagResource'] };
  },
  PutBucketInventoryConfiguration: (body) => ({
    named: new Map([['s3:InventoryAccessibleOptionalFields', inventoryIn(body).OptionalFields ?? []]]),
  }),
  PutObjectTagging: (body) => ({ requestTags: tagsIn(body) }),
  PutObjectLegalHold: (body) => ({ headers: { 'object-lock-legal-hold': legalHoldIn(body).Status } }),
  PutObjectRetention: (body) => {
    const { Mode, RetainUntilDate } = retentionIn(body);
    return { headers: { 'object-lock-mode': Mode, 'object-lock-retain-until-date': RetainUntilDate } };
  },
};

export const asksInBody = (operation: OperationName): boolean => operation in inBody;

type Asking = Omit<Call, 'body'>;

/** A copy that takes its source's tags passes over those that its request names. */
const copiesTags = (call: Asking): boolean =>
  call.operation === 'CopyObject' && header(call, 'tagging-directive') !== 'REPLACE';

/** The caller and the tags as its judgement sees them. */
export function askedBy<C extends Asking>(
  call: C,
  { also }: Pick<Operation, 'also'>,
  body: Uint8Array | undefined,
): Pick<Asked, 'named' | 'along'> & { readonly caller: C; readonly requestTags: Tags | undefined } {
  const read = inBody[call.operation];
  if (read === undefined || body === undefined) {
    const asksTags = also !== undefined && 'tagging' in also && !copiesTags(call);
    return { caller: call, requestTags: asksTags ? tagsOf(header(call, 'tagging')) : undefined };
  }
  const { requestTags, headers = {}, ...others } = read(body);
  const own = new Map(call.own);
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) own.delete(name);
    else own.set(name, value);
  }
  return { ...others, caller: { ...call, own }, requestTags };
}

/**
 * Requester Pays buckets (public API "Requester Pays buckets"): other accounts say with each request that they know whom
 * it is charged to. This service sends no bills; billing from its logs can rely on that header.
 */
import type { Caches } from '../../base/caches.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { requestPayment } from '../../domain/configurations/families.ts';
import { fail } from '../../errors/refusal.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Caller } from './authorize.ts';

type Ctx = { readonly caches: Caches; readonly metadata: MetadataStore };
type Payer = Pick<Caller, 'identity' | 'own'>;

/**
 * Whether the request is charged to the account that it comes from. Nearly no bucket asks that, and then nothing is awaited.
 * @throws AccessDenied for one of another account that does not agree to that, or anonymous
 */
export const isCharged = (ctx: Ctx, payer: Payer, bucket: BucketRow): false | Promise<boolean> =>
  requestPayment.name in bucket.documents && agrees(ctx, payer, bucket);

async function agrees(ctx: Ctx, { identity, own }: Payer, bucket: BucketRow): Promise<boolean> {
  const payment = await readDocument(ctx, bucket, requestPayment);
  if (payment?.Payer !== 'Requester' || identity?.owner === bucket.owner) return false;
  if (identity === undefined || own.get('request-payer') !== 'requester')
    throw fail('AccessDenied', 'The requester pays for requests to this bucket, and must say so.');
  return true;
}

/**
 * Requester Pays buckets (public API "Requester Pays buckets"): a request from another account must state that it accepts the charge.
 * This service sends no bills; billing from its logs can rely on that header.
 */
import type { Caches } from '../../base/caches.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { requestPayment } from '../../domain/configurations/families.ts';
import { fail } from '../../errors/refusal.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Caller } from './authorize.ts';
import { provenAt } from './proven-identity.ts';

type Ctx = { readonly caches: Caches; readonly metadata: MetadataStore };
type Payer = Pick<Caller, 'identity' | 'own'>;

/**
 * Whether the request is charged to its caller's account.
 * @throws AccessDenied for a request of another account that does not accept the charge, or is anonymous
 */
export async function isCharged(ctx: Ctx, caller: Payer, bucket: BucketRow): Promise<boolean> {
  const { identity } = provenAt(caller, { bucket, bucketName: bucket.name });
  const payment = await readDocument(ctx, bucket, requestPayment);
  if (payment?.Payer !== 'Requester' || identity?.owner === bucket.owner) return false;
  if (identity === undefined || caller.own.get('request-payer') !== 'requester')
    throw fail('AccessDenied', 'The requester pays for requests to this bucket, and must say so.');
  return true;
}

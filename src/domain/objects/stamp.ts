/**
 * Stamps order the changes of tags, ACL and lock of one version across sites: 16 hex digits of a hybrid clock, `-`, the id of the site.
 * The later text wins at every site (docs/adr/0020-replicated-versions-keep-their-ids.md).
 */
import type { Caches } from '../../base/bounded-cache.ts';
import { findSite } from '../../metadata/site.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Clock } from '../../ports/clock.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import { drawVersion, versionOrder } from '../common/ids.ts';

interface Ctx {
  readonly caches: Caches;
  readonly metadata: Pick<MetadataStore, 'get' | 'commit'>;
  readonly clock: Clock;
  readonly random: Random;
}

/** A version that was never amended has the ordered digits of its id. */
export const effectiveStamp = ({ stamp, version }: Pick<ObjectRow, 'stamp' | 'version'>): string =>
  stamp ?? versionOrder(version);

/** Whether an amendment changed what sites exchange about a version beside its content. */
const isExchanged = (former: ObjectRow, amended: ObjectRow): boolean =>
  former.headers.tags !== amended.headers.tags || former.acl !== amended.acl || former.lock !== amended.lock;

/**
 * An amendment of this site with its stamp, which is later than the stamp before. The trace begins anew, because no other site knows of
 * the change.
 */
export async function stamped(
  ctx: Ctx,
  bucket: Pick<BucketRow, 'versioning'>,
  { former, amended }: { readonly former: ObjectRow; readonly amended: ObjectRow },
): Promise<ObjectRow> {
  if (bucket.versioning === '' || !isExchanged(former, amended)) return amended;
  const site = await findSite(ctx);
  const { trace: _, ...row } = amended;
  return { ...row, stamp: `${versionOrder(drawVersion(ctx, effectiveStamp(former)))}-${site}` };
}

/** Removes one version that was read before, and no other that has replaced it since. */
import { Refusal } from '../../errors/refusal.ts';
import { findVersion, newestInHistory } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Revision } from '../../ports/metadata-store.ts';
import { mfaRequired } from '../buckets/bucket-versioning.ts';
import { type Ctx, changeKey } from './commit-version.ts';
import { drawVersion } from './version-ids.ts';
import { planRemoveVersion } from './versions.ts';

/** `kept`: protected by Object Lock or MFA delete. `nothing`: it did not exist. */
export type Removal = 'gone' | 'kept' | 'nothing';

export async function removeSeenVersion(
  ctx: Ctx,
  bucket: BucketRow,
  {
    row,
    revision,
    requestId,
  }: {
    readonly row: ObjectRow;
    /** Removes the version only at this revision, so that not even its bytes have moved. */
    readonly revision?: Revision;
    readonly requestId: string;
  },
): Promise<Removal> {
  const { key, version, isNull } = row;
  try {
    const { done } = await changeKey(ctx, {
      bucket,
      key,
      requestId,
      id: `${requestId}-${drawVersion(ctx)}`,
      async decide({ bucket: now, head }) {
        if (now.mfaDelete) throw mfaRequired();
        const target = await findVersion(ctx.metadata, now, key, isNull ? 'null' : version);
        if (head === undefined || target?.row.version !== version) return undefined;
        if (revision !== undefined && target.revision !== revision) return undefined;
        return planRemoveVersion(head, target, await newestInHistory(ctx.metadata, now, key));
      },
    });
    return done === 'applied' ? 'gone' : 'nothing';
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === 'AccessDenied') return 'kept';
    throw cause;
  }
}

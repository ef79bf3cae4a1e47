/** `RestoreStatus` of listed objects, if the request includes it (public API "optional-object-attributes"). */

import type { Context } from '../../../context.ts';
import { restoredUntil } from '../../../domain/objects/restore.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { ObjectRow } from '../../../metadata/tables.ts';
import { isoTime } from '../../../protocol/formats/iso-time.ts';
import type { ListedObject } from '../../../protocol/schemas/object/listing.ts';
import { header } from '../../common/own-headers.ts';

type Shown = Pick<ListedObject, 'RestoreStatus'>;
export type RestoreStatus = (row: Pick<ObjectRow, 'restore'>) => Shown;
const nothing: Shown = {};

/** @throws InvalidArgument for an attribute that the public API does not know */
export function restoreStatusFor(ctx: Pick<Context, 'clock'>, request: AuthorizedInBucket): RestoreStatus {
  const raw = header(request, 'optional-object-attributes');
  if (raw === undefined) return () => nothing;
  if (raw.split(',').some((each) => each.trim() !== 'RestoreStatus')) {
    throw fail('InvalidArgument', {
      message: 'Invalid attribute name specified: the optional attribute is RestoreStatus',
      elements: { ArgumentName: 'optional-object-attributes', ArgumentValue: raw },
    });
  }
  return (row) => {
    const until = restoredUntil(ctx, row);
    if (until === undefined) return nothing;
    const RestoreExpiryDate = isoTime(until);
    return { RestoreStatus: { IsRestoreInProgress: false, RestoreExpiryDate } };
  };
}

/** The use of a bucket as charges of FOCUS: the columns of the gateway's own export. */
import { type Charge, focusColumns, storageCharge, trafficCharges } from '../../../src/domain/usage/focus.ts';
import type { Answer } from '../../app/client.ts';
import { saveCsv } from '../../ui/csv.ts';
import type { TrafficRow, UsageRow } from './feed.ts';

/** @param traffic undefined where policies forbid it, or while it is read */
export function saveFocus(
  { name: bucket, id: bucketId, owner }: Pick<Answer<'GetBucket'>, 'name' | 'id' | 'owner'>,
  storage: readonly UsageRow[],
  traffic: readonly TrafficRow[] | undefined,
): void {
  const charges: readonly Charge[] = [
    ...storage.map(({ day, storageClass, byteSeconds }) =>
      storageCharge({ day, bucket, bucketId, owner, storageClass, byteSeconds: String(byteSeconds) }),
    ),
    ...(traffic ?? []).flatMap((row) => trafficCharges({ ...row, bucket, bucketId })),
  ];
  saveCsv(`${bucket}-focus.csv`, focusColumns, charges);
}

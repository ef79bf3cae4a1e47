/** Pages of an account's records. */
import type { Context } from '../../context.ts';
import { type IamKind, type IamRecord, scanIam, toRecord } from '../../metadata/iam.ts';

export interface PageOf<K extends IamKind> {
  readonly kind: K;
  /** A prefix of the records' names. */
  readonly prefix?: string;
  readonly after: string | undefined;
  readonly max: number;
  readonly keep?: (record: IamRecord<K>) => boolean;
}
export interface Page<T> {
  readonly items: readonly T[];
  /** The name after which the next page begins. Absent on the last page. */
  readonly next?: string;
}

/** Records per read. */
const stepMax = 200;

export async function readRecordPage<K extends IamKind>(
  { metadata }: Pick<Context, 'metadata'>,
  account: string,
  { kind, prefix, after, max, keep = () => true }: PageOf<K>,
): Promise<Page<IamRecord<K>>> {
  const items: IamRecord<K>[] = [];
  const range = { kind, ...(prefix === undefined ? {} : { prefix }) };
  for (let last = after; ; ) {
    const found = await scanIam(metadata, account, { ...range, after: last, count: stepMax });
    for (const record of found.map((stored) => toRecord<K>(stored))) {
      if (!keep(record)) continue;
      if (items.length === max) return { items, next: items[max - 1]?.name ?? '' };
      items.push(record);
    }
    last = found.at(-1)?.row.name;
    if (found.length < stepMax) return { items };
  }
}

/** Work on many buckets and rows, one after the other: a damaged one does not stop the work on the others. */
import type { Context } from '../../context.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';

type Ctx = Pick<Context, 'telemetry'>;

interface Work<T> {
  readonly bucket: string;
  /** What is left undone, for the log. */
  readonly left: string;
  run(): Promise<T>;
}

/** @returns undefined where rows are damaged: the log and a metric say so, and fsck names them. Other failures are thrown. */
export async function passOverDamage<T>(
  { telemetry }: Ctx,
  { bucket, left, run }: Work<T>,
): Promise<T | undefined> {
  try {
    return await run();
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged)) throw cause;
    telemetry.log('ERROR', `${left}, because metadata of a bucket is damaged`, { bucket, cause });
    return undefined;
  }
}

interface DamagedRows {
  readonly bucket: string;
  /** What is left undone, for the log. */
  readonly left: string;
  readonly damaged: readonly MetadataDamaged[];
}

/** Logs the damaged rows that a page of a walk has left out, in one line. */
export function reportDamaged({ telemetry }: Ctx, { bucket, left, damaged }: DamagedRows): void {
  const [cause] = damaged;
  if (cause === undefined) return;
  const fields = { bucket, rows: damaged.length, cause };
  telemetry.log('ERROR', `${left}, because rows of a bucket are damaged`, fields);
}

/** The result of the work on a row, or the damage that it met. Other failures are thrown. */
export async function unlessDamaged<T>(run: () => Promise<T>): Promise<T | MetadataDamaged> {
  try {
    return await run();
  } catch (cause) {
    if (cause instanceof MetadataDamaged) return cause;
    throw cause;
  }
}

/** Work on many buckets, one after the other: damaged rows of one bucket do not stop the work on the others. */
import type { Context } from '../../context.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';

interface Work<T> {
  readonly bucket: string;
  /** What is left undone, for the log. */
  readonly left: string;
  run(): Promise<T>;
}

/** @returns undefined where rows are damaged: the log and a metric say so, and fsck names them. Other failures are thrown. */
export async function passOverDamage<T>(
  { telemetry }: Pick<Context, 'telemetry'>,
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

/** Answers operators: the usage of closed days by bucket or account, and what an account's buckets hold now. */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import { findBucket, pageBuckets } from '../../../metadata/buckets/buckets.ts';
import { readUsage } from '../../../metadata/buckets/usage.ts';
import { openTurns } from '../../storage/turns.ts';
import type { Counts } from './samples.ts';

type Ctx = Pick<Context, 'metadata' | 'clock'>;

const pageMax = 100;
const readsMax = 8;

/** The bytes and objects of all buckets of an account now. */
export async function sumOwned(
  { metadata, clock }: Ctx,
  owner: string,
  signal?: AbortSignal,
): Promise<Counts> {
  let bytes = 0;
  let objects = 0;
  let after: string | undefined;
  const rest = openTurns(clock, signal);
  for (;;) {
    const page = await pageBuckets(metadata, owner, { prefix: '', after, limit: pageMax });
    await inParallel(readsMax, page, async ({ name }) => {
      await rest();
      const found = await findBucket(metadata, name);
      // The list may lag behind the bucket's row.
      if (found?.row.owner !== owner) return;
      for (const counts of (await readUsage(metadata, found.row.id)).values()) {
        bytes += counts.bytes;
        objects += counts.objects;
      }
    });
    if (page.length < pageMax) return { bytes, objects };
    after = page.at(-1)?.name;
  }
}

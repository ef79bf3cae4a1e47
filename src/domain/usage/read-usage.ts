/** Answers operators: the usage of closed days by bucket or account, and what an account's buckets hold now. */
import { inParallel } from '../../base/concurrency.ts';
import type { Context } from '../../context.ts';
import { findBucket, pageBuckets } from '../../metadata/buckets/buckets.ts';
import { readUsage } from '../../metadata/buckets/usage.ts';
import { openTurns } from '../common/turns.ts';
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

// UTC days as text, `YYYY-MM-DD`: they sort as text, and operators read them.

export const dayMs = 86_400_000;

export const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** The first moment of a day, in ms. */
export const startOfDay = (day: string): number => Date.parse(`${day}T00:00:00Z`);

export const addDays = (day: string, days: number): string => toDay(startOfDay(day) + days * dayMs);

/** Whether a text is a day of the calendar; 2026-02-30 is none. */
export const isDay = (text: string): boolean => {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const ms = startOfDay(text);
  return !Number.isNaN(ms) && toDay(ms) === text;
};

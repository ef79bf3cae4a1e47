/** The sweep and a bucket that is not listed yet. */
import { expect, test } from 'vitest';
import { sweep } from '../../../src/domain/storage/sweep.ts';
import { backlog } from '../../../src/metadata/background/queues.ts';
import { bucketSlotOf } from '../../../src/metadata/buckets/buckets.ts';
import { bucketsAll } from '../../../src/metadata/buckets/records.ts';
import { domainWorld, intentTtlMs, storedExtents } from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';

const never = new AbortController().signal;

test('deletes nothing of a bucket that is not in the lists yet, because its creator died before it put it there', async () => {
  const world = await domainWorld();
  let isPending = true;
  const metadata = faulty(world.metadata, {
    hasPendingPuts: async () => isPending,
    // The writer dies right after its commit.
    end: async () => {},
  });
  const place = { slot: bucketSlotOf('bucket'), name: 'bucket' };
  const at = { table: bucketsAll, in: { slot: place.slot } };
  await metadata.apply([{ at, remove: { name: 'bucket' } }]);
  await world.over(metadata).put('key', 'content');
  await world.clock.advance(intentTtlMs + 1);
  await sweep({ ...world, metadata }, never);
  expect(await backlog(metadata, 'gc')).toBe(0);
  expect(await metadata.abandoned()).not.toEqual([]);
  // The bucket is now entered into the list, as its creator should have done.
  await metadata.apply([{ at, put: place }]);
  isPending = false;
  await sweep({ ...world, metadata }, never);
  expect(await backlog(metadata, 'gc')).toBe(0);
  expect(await metadata.abandoned()).toEqual([]);
  expect(await storedExtents(world)).toHaveLength(1);
});

/** The region of a key, from PD's wire messages. */
import { expect, test } from 'vitest';
import { Backoff } from '../../src/backends/tikv/backoff.ts';
import { encodeKey, messageCodec } from '../../src/backends/tikv/messages.ts';
import type { PlacementDriver } from '../../src/backends/tikv/placement-driver.ts';
import { Regions } from '../../src/backends/tikv/regions.ts';

const answers = messageCodec<Awaited<ReturnType<PlacementDriver['region']>>>('GetRegionResponse');

const peer = { id: 1, store_id: 1 };
const regionFrom = (id: number, start: string, end: string) => ({
  id,
  ...(start === '' ? {} : { start_key: encodeKey(Buffer.from(start)) }),
  ...(end === '' ? {} : { end_key: encodeKey(Buffer.from(end)) }),
  region_epoch: { conf_ver: 1, version: id },
  peers: [peer],
});

/** The regions of a placement driver that returns these answers one after the other. */
function answering(...given: readonly ReturnType<typeof regionFrom>[]) {
  const sides: string[] = [];
  const left = given.map((region) => answers.encode({ region, leader: peer }));
  const driver = {
    region: async (_: Uint8Array, side: string) => {
      sides.push(side);
      return answers.decode(left.shift() as Uint8Array);
    },
  };
  // The cast is safe, because only this method of the driver is called.
  return { regions: new Regions(driver as unknown as PlacementDriver), sides };
}

test('the region ahead of a key in the first region, whose start PD does not send, is the first region', async () => {
  const { regions, sides } = answering(regionFrom(7, '', 'z'));
  const found = await regions.locate(Buffer.from('key'), new Backoff(1_000), 'before');
  expect([found.id, found.start.length, sides]).toEqual([7n, 0, ['at']]);
});

test('when two regions merge during the request for the one ahead of a key, PD is asked again', async () => {
  // Region c-z begins at the key. Then b-c and c-z merge, so the region in front of the merged one is a-b.
  const { regions, sides } = answering(
    regionFrom(3, 'c', 'z'),
    regionFrom(1, 'a', 'b'),
    regionFrom(4, 'b', 'z'),
  );
  const found = await regions.locate(Buffer.from('c'), new Backoff(5_000), 'before');
  expect([found.id, sides]).toEqual([4n, ['at', 'before', 'at']]);
});

test('an answer that does not hold the key is not taken', async () => {
  const { regions, sides } = answering(regionFrom(1, 'a', 'b'), regionFrom(2, 'b', ''));
  const found = await regions.locate(Buffer.from('c'), new Backoff(5_000));
  expect([found.id, sides]).toEqual([2n, ['at', 'at']]);
});

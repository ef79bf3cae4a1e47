/** Which region a key lies in, as PD's answers say it on the wire. */
import { expect, test } from 'vitest';
import { Backoff } from '../../src/backends/metadata/ordered-kv/tikv/backoff.ts';
import { messageCodec } from '../../src/backends/metadata/ordered-kv/tikv/messages.ts';
import type { PlacementDriver } from '../../src/backends/metadata/ordered-kv/tikv/placement-driver.ts';
import { Regions } from '../../src/backends/metadata/ordered-kv/tikv/regions.ts';

const answers = messageCodec<Awaited<ReturnType<PlacementDriver['region']>>>('GetRegionResponse');

test('ahead of a key of the first region, whose start is not sent, lies the first region', async () => {
  const peer = { id: 1, store_id: 1 };
  const epoch = { conf_ver: 1, version: 1 };
  const region = { id: 7, end_key: Buffer.from('z'), region_epoch: epoch, peers: [peer] };
  const sent = answers.encode({ region, leader: peer });
  const sides: string[] = [];
  const driver = {
    region: async (_: Uint8Array, side: string) => {
      sides.push(side);
      return answers.decode(sent);
    },
  };
  // The cast: nothing else of the driver is asked.
  const regions = new Regions(driver as unknown as PlacementDriver);
  const found = await regions.locate(Buffer.from('key'), new Backoff(1_000), 'before');
  expect([found.start.length, found.end.toString(), sides]).toEqual([0, 'z', ['at']]);
});

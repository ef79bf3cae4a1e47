/** An evacuation under client load loses nothing, refuses no write that another cluster can take, and leaves nothing behind. */
import { test } from 'vitest';
import { openClusters } from '../support/clusters.ts';
import { evacuateUnderLoad, loadSettings } from '../support/evacuation-load.ts';
import { backends } from '../support/gateway.ts';

test.each(backends)('on %s', async (backend) => {
  const { world } = await openClusters('a,b,c', { backend, settings: loadSettings });
  await using _ = world;
  await evacuateUnderLoad(world);
});

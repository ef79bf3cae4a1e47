import { expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { replicated } from '../../src/domain/objects/replication-queue.ts';
import type { Plan } from '../../src/domain/objects/versions.ts';
import { queued } from '../../src/metadata/background/queues.ts';
import { findLiveHead } from '../../src/metadata/objects/objects.ts';
import { openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { awaitDefaultPeer, defaultRole } from '../support/replication-role.ts';

test('what a plan already brings into its commit stays beside the replication task', async () => {
  await using world = await openGateway();
  const { client, context } = world;
  await awaitDefaultPeer(world);
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const rule =
    '<Rule><ID>r</ID><Prefix></Prefix><Status>Enabled</Status><Destination><Bucket>arn:aws:s3:::replica</Bucket></Destination></Rule>';
  const body = `<ReplicationConfiguration><Role>${defaultRole}</Role>${rule}</ReplicationConfiguration>`;
  expect((await client.put('/bucket?replication', { body })).status).toBe(200);
  await client.put('/bucket/key', { body: 'x' });
  const bucket = await openBucket(context, 'bucket');
  const fresh = (await findLiveHead(context.metadata, bucket, 'key'))?.row;
  if (fresh === undefined) throw new Error('the key has no head');
  const brought = queued('gc', 'key', { extents: [] }, { id: 'id', due: 0, requestId: 'request' });
  const plan: Plan = { changes: [], before: [], gone: [], fresh, then: [brought] };
  const { then = [] } = await replicated(context, plan, { bucket, requestId: 'request' });
  expect(then).toHaveLength(2);
  expect(then[0]).toBe(brought);
});

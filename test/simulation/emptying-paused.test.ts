/** A leader of the worker force-empty that is paused beyond its lease deletes nothing that clients write after the bucket is emptied. */
import { expect, test } from 'vitest';
import { emptyBuckets } from '../../src/workers/buckets.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { createUpload, setVersioning } from '../support/gateway-bodies.ts';
import { pausedAtCall, runUntilPaused } from '../support/paused-at-call.ts';

const path = '/buckets/bucket/force-empty';

/** How the task ends while the leader is paused. */
const ends = {
  'its successor has emptied the bucket': async ({ context }: GatewayWorld) => {
    const unit = emptyBuckets(context);
    while ((await unit(new AbortController().signal)) === 'busy');
  },
  'an operator has cancelled it': (world: GatewayWorld) => operatorOf(world).must('DELETE', path),
};

async function fill({ client }: GatewayWorld): Promise<void> {
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  for (const body of ['one', 'two']) await client.put('/bucket/a', { body });
  await client.put('/bucket/b', { body: 'x' });
  await client.delete('/bucket/b');
  await createUpload(client, '/bucket/open');
}

for (const [when, end] of Object.entries(ends))
  test(`a leader that is paused before any call, until ${when}, deletes no later version or upload`, async () => {
    const asked: string[] = [];
    for (let at = 0; ; at += 1) {
      expect(at).toBeLessThan(200);
      await using world = await openGateway();
      const { client } = world;
      await fill(world);
      const admin = operatorOf(world);
      await admin.must('POST', path);
      const tables = ['tasks', 'buckets', 'objects', 'upload_index', 'uploads'];
      const former = pausedAtCall(world.context, { at, when: 'before', tables });
      const { isOver, ending } = await runUntilPaused(former, emptyBuckets(former.context));
      if (isOver) break;
      await end(world);
      const done = await admin.must('GET', path);
      asked.push(String(done['state']));
      for (const key of ['a', 'b', 'c']) await client.put(`/bucket/${key}`, { body: `new ${key}` });
      const uploadId = await createUpload(client, '/bucket/open');
      former.resume();
      const message = `call ${at}`;
      expect(await ending, message).toBeUndefined();
      for (const key of ['a', 'b', 'c'])
        expect((await client.get(`/bucket/${key}`)).text, message).toBe(`new ${key}`);
      expect((await client.get('/bucket?uploads')).all('UploadId'), message).toContain(uploadId);
      expect(await admin.must('GET', path), message).toEqual(done);
    }
    expect(new Set(asked).size).toBe(1);
    expect(asked.length).toBeGreaterThan(20);
  });

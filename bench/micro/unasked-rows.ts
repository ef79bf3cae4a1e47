/** What a commit computes for lifecycle, replication and notifications in a bucket that has no configuration of them. */

import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import { eventChanges } from '../../src/domain/events/events.ts';
import { replicated } from '../../src/domain/objects/replication-queue.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { ageChanges } from '../../src/metadata/objects/ages.ts';
import { findLiveHead } from '../../src/metadata/objects/objects.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../../src/runtime/processes/node-telemetry.ts';
import { incomingOf } from '../lib/incoming.ts';
import { microsOf, type Piece } from '../lib/micro.ts';
import { benchCredential, Signer, sha256Of } from '../lib/sign.ts';

export async function unaskedRows(): Promise<Piece[]> {
  const config = configWith({ SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop' });
  const composed = await compose(config, {
    credentials: [benchCredential],
    telemetry: nodeTelemetry(config),
  });
  const { context } = composed;
  const gateway = createGateway(context);
  const signer = new Signer('localhost:9000');
  const body = new Uint8Array(4096).fill(3);
  const payloadHash = sha256Of(body);
  await gateway.handle(incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
  const head = signer.header({ method: 'PUT', path: '/bench/key', payloadHash, length: body.length });
  const put = () => gateway.handle(incomingOf(head, body));
  await put();
  const bucket = (await findBucket(context.metadata, 'bench'))?.row;
  if (bucket === undefined) throw new Error('the bucket is missing');
  const fresh = (await findLiveHead(context.metadata, bucket, 'key'))?.row;
  if (fresh === undefined) throw new Error('the object is missing');
  const plan = { changes: [{ put: fresh, expect: 'any' as const }], before: [], gone: [], fresh };
  const cause = { events: ['ObjectCreated:Put'], principalId: 'p', source: 's', requestId: 'r' };
  const unasked = await microsOf(async () => {
    await replicated(context, plan, { bucket, requestId: 'r' });
    await eventChanges(context, { bucket, fresh, gone: [] }, cause);
    ageChanges(bucket, { before: [], after: [fresh] });
  });
  const whole = { name: 'handle, put 4 KiB, memory + noop', micros: await microsOf(put) };
  await composed.close();
  return [{ name: 'ages, replication and events that nothing asks for', micros: unasked, floor: whole }];
}

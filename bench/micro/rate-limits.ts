/**
 * What rate limits cost a request while none is set: the stages of the caller and of the bucket, beside a whole HEAD
 * through `gateway.handle`.
 */

import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import { limitCaller } from '../../src/gateway/permit.ts';
import { admit, type Identified, type RequestContext } from '../../src/request/request.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { incomingOf } from '../lib/incoming.ts';
import { microsOf, microsOfSync, type Piece } from '../lib/micro.ts';
import { benchCredential, Signer } from '../lib/sign.ts';

export async function rateLimits(): Promise<Piece[]> {
  const config = configWith({ SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop' });
  const { context, close } = await compose(config, { credentials: [benchCredential] });
  const gateway = createGateway(context);
  const signer = new Signer('localhost:9000');
  const send = async (head: string): Promise<void> => {
    const { status } = await gateway.handle(incomingOf(head, undefined));
    if (status >= 300) throw new Error(String(status));
  };
  await send(signer.header({ method: 'PUT', path: '/bench' }));
  const head = signer.header({ method: 'HEAD', path: '/bench' });
  const whole = await microsOf(() => send(head));
  // The cast: the stages read these facts only, and the first of them only where there is a limit.
  const request = {
    identity: { owner: 'bench' },
    wire: { remote: '10.99.0.1' },
  } as unknown as Identified & RequestContext;
  const ofBucket = () => ({ kind: 'bucket', id: 'bench' }) as const;
  await limitCaller(context, request);
  const stages = microsOfSync(() => {
    if (limitCaller(context, request) !== undefined || admit(context, request, ofBucket) !== undefined)
      throw new Error('the limiter was not ready');
  });
  await close();
  return [
    {
      name: `rate limits, none set: ${((100 * stages) / whole).toFixed(2)} % of the request`,
      micros: stages,
      floor: { name: 'HEAD of a bucket through handle', micros: whole },
    },
  ];
}

/** What the areas beside the storage protocol get of a request. */
import type { Authenticated, Renew } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import type { AreaCall } from '../handlers/area-call.ts';
import { readBody } from '../handlers/body.ts';
import type { Incoming } from '../protocol/wire.ts';
import type { Place } from './locate.ts';
import { Recording } from './recording.ts';
import type { Trace } from './trace.ts';

interface AreaFacts extends Pick<Authenticated, 'identity' | 'payload'>, Pick<Place, 'wire' | 'query'> {
  readonly renew: Renew | undefined;
  readonly trace: Trace;
  readonly incoming: Incoming;
}

export const areaCall = (
  ctx: Context,
  { wire, query, identity, renew, payload, trace, incoming }: AreaFacts,
): AreaCall => ({
  requestId: trace.requestId,
  wire,
  query,
  identity,
  async readBody() {
    const body = await readBody(
      ctx,
      { wire, own: new Map(), payload },
      { hasBody: incoming.body !== undefined, row: {}, held: trace },
    );
    // Its key may have been made inactive while the body came.
    await renew?.();
    return body;
  },
  asked: (action, { audited, bucketName }) => {
    trace.operation = action;
    if (!audited) return undefined;
    const { requestId } = trace;
    trace.recording = new Recording(ctx, { requestId, wire, action, identity, bucketName, key: '' });
    return trace.recording;
  },
});

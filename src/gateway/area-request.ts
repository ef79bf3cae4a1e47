/** What the operator, metrics and health areas get of a request. */
import type { Context } from '../context.ts';
import type { AreaRequest } from '../handlers/areas/area-request.ts';
import { emptyBody, readBody } from '../handlers/common/body.ts';
import { Recording } from './records/recording.ts';
import { establish, type Identified } from './request.ts';

export const areaRequest = (ctx: Context, request: Identified): AreaRequest => {
  const { requestId, wire, query, renew, payload, incoming } = request;
  return {
    requestId,
    wire,
    query,
    signal: request.signal,
    get identity() {
      return request.identity;
    },
    callerOf: (operation) => {
      const { own, signed, identity } = request;
      return { wire, query, own, signed, identity, operation };
    },
    async readBody(bodyMax) {
      const hasBody = incoming.body !== undefined;
      const body = await readBody(
        ctx,
        { wire, own: new Map(), payload },
        { hasBody, row: bodyMax === undefined ? {} : { bodyMax }, held: request },
      );
      // The caller's key may have been made inactive, or its user changed, while the body arrived.
      establish(request, { identity: (await renew?.()) ?? request.identity });
      return body ?? emptyBody;
    },
    asked: (action, { audited, bucketName, recorded }) => {
      const { identity } = request;
      const asked = { requestId, wire, action, identity, bucketName, key: '', recorded };
      return establish(request, {
        operation: action,
        record: audited ? new Recording(ctx, asked) : undefined,
      }).record;
    },
  };
};

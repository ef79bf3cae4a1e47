/** DeleteObject. */
import { deleteObject } from '../../domain/objects/delete-object.ts';
import type { HeaderPair } from '../../protocol/reply/reply.ts';
import { hasShownMfa } from '../common/mfa.ts';
import { defined } from '../common/parameters.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { deleteConditions } from './headers/conditions.ts';
import { asksBypass } from './headers/lock-headers.ts';
import { versionHeader } from './headers/object-headers.ts';

export const DeleteObject: HandlerOf<'DeleteObject'> = async (ctx, request) => {
  const { bucket, key, record, requestId } = request;
  const versionId = request.query.get('versionId');
  const { version } = await deleteObject(ctx, {
    bucket,
    key,
    ...defined({ versionId }),
    conditions: deleteConditions(request),
    bypass: asksBypass(request),
    mfa: bucket.mfaDelete === true && versionId !== undefined && (await hasShownMfa(ctx, request)),
    owner: request.identity?.owner ?? bucket.owner,
    record,
    requestId,
  });
  const headers: HeaderPair[] = [];
  if (version?.marker) headers.push(['*-delete-marker', 'true']);
  const versionHeaders = version === undefined ? [] : versionHeader(request, version);
  headers.push(...versionHeaders);
  if (versionHeaders.length === 0 && versionId !== undefined) headers.push(['*-version-id', versionId]);
  return emptyReply(204, headers);
};

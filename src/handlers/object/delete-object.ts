/** DeleteObject (spec "DeleteObject", "Versioning"). */
import { deleteObject } from '../../domain/delete-object.ts';
import type { HandlerOf, HeaderPair } from '../call.ts';
import { hasShownMfa } from '../mfa.ts';
import { defined } from '../parameters.ts';
import { emptyReply } from '../xml-reply.ts';
import { deleteConditions } from './conditions.ts';
import { asksBypass } from './lock-headers.ts';
import { versionHeader } from './object-headers.ts';

export const DeleteObject: HandlerOf<'DeleteObject'> = async (ctx, call) => {
  const { bucket, key, ahead, record, requestId } = call;
  const versionId = call.query.get('versionId');
  const { version } = await deleteObject(ctx, {
    bucket,
    key,
    ahead,
    ...defined({ versionId }),
    conditions: deleteConditions(call),
    bypass: asksBypass(call),
    mfa: bucket.mfaDelete === true && versionId !== undefined && (await hasShownMfa(ctx, call)),
    owner: call.identity?.owner ?? bucket.owner,
    record,
    requestId,
  });
  const headers: HeaderPair[] = [];
  if (version?.marker) headers.push(['*-delete-marker', 'true']);
  const shown = version === undefined ? [] : versionHeader(call, version);
  headers.push(...shown);
  if (shown.length === 0 && versionId !== undefined) headers.push(['*-version-id', versionId]);
  return emptyReply(204, headers);
};

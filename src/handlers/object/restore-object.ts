/** RestoreObject, and how reads and listings show a restored copy. */
import { fail } from '../../base/errors.ts';
import { restoreVersion } from '../../domain/objects/restore.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import { restoreRequest } from '../../protocol/schemas/object.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';

/** A hundred years. */
const daysMax = 36_500;

/** 202 for a first restore, though it is done; 200 for another one, which sets a new end (public API). */
export const RestoreObject: HandlerOf<'RestoreObject'> = async (ctx, request) => {
  const { bucket, key, query, record, requestId } = request;
  const about = { bucket, key, versionId: query.get('versionId'), record, requestId };
  const { wasRestored } = await restoreVersion(ctx, about, parseDays(request));
  return emptyReply(wasRestored ? 200 : 202);
};

function parseDays({ body }: AuthorizedInBucket): number {
  const { Days, Type, SelectParameters, OutputLocation } = readXml(restoreRequest, 'RestoreRequest', body, {
    maxBytes: bodyMaxDefault,
  });
  if (Type !== undefined || SelectParameters !== undefined || OutputLocation !== undefined)
    throw fail('NotImplemented', 'A restore cannot select from the content.');
  if (Days === undefined) throw fail('MalformedXML', 'Days is required');
  if (Days >= 1 && Days <= daysMax) return Days;
  throw fail('InvalidArgument', {
    message: `Days must be from 1 to ${daysMax}`,
    elements: { ArgumentName: 'Days', ArgumentValue: Days },
  });
}

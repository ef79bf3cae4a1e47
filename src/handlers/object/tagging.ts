/** GetObjectTagging, PutObjectTagging and DeleteObjectTagging. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { amendVersion } from '../../domain/objects/amend-version.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { tagging } from '../../protocol/schemas/object.ts';
import type { ReadFacts } from '../../request/body.ts';
import { utf8Length } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { type Tags, tagsIn } from '../../request/tags.ts';
import { emptyReply, xmlReply } from '../common/xml-reply.ts';
import { type HandlerOf, requireTarget } from '../handler.ts';
import { versionHeader } from './object-headers.ts';

/** The size of everything stored beside the content, tags included, because it is in the object's row. */
const storedMax = 12 * 1024;

export const GetObjectTagging: HandlerOf<'GetObjectTagging'> = async (_ctx, request) => {
  const row = requireTarget(request);
  const TagSet = (row.headers.tags ?? []).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply(tagging, 'Tagging', { TagSet }, versionHeader(request, row));
};

export const PutObjectTagging: HandlerOf<'PutObjectTagging'> = async (ctx, request) => {
  const row = await setTags(ctx, request, tagsIn(request.body));
  return emptyReply(200, versionHeader(request, row));
};

export const DeleteObjectTagging: HandlerOf<'DeleteObjectTagging'> = async (ctx, request) => {
  const row = await setTags(ctx, request, []);
  return emptyReply(204, versionHeader(request, row));
};

async function setTags(ctx: Context, request: AuthorizedInBucket, tags: Tags): Promise<ObjectRow> {
  const { bucket, key, query, record, requestId } = request;
  return amendVersion(ctx, {
    bucket,
    key,
    record,
    versionId: query.get('versionId'),
    requestId,
    amend: (row) => {
      const { tags: former = [], ...rest } = row.headers;
      if (tags.length === 0 && former.length === 0) return row;
      const headers = tags.length === 0 ? rest : { ...rest, tags };
      if (utf8Length(JSON.stringify(headers)) > storedMax)
        throw fail('BadRequest', `Tags and metadata of an object cannot take more than ${storedMax} bytes`);
      return { ...row, headers };
    },
  });
}

export const taggingFacts: ReadFacts = (body) => ({ requestTags: tagsIn(body) });

/** GetObjectTagging, PutObjectTagging and DeleteObjectTagging (spec "Bucket and object operations"). */
import type { Context } from '../../context.ts';
import { amendVersion } from '../../domain/amend-version.ts';
import { fail } from '../../errors/refusal.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { tagging } from '../../protocol/schemas/tagging.ts';
import { type BucketCall, type HandlerOf, targetOf } from '../call.ts';
import { utf8Length } from '../parameters.ts';
import { emptyReply, xmlReply } from '../xml-reply.ts';
import { versionHeader } from './object-headers.ts';
import { type Tags, tagsIn } from './tagging-header.ts';

/** What is stored with an object beside its content, tags included: it keeps its row small (design §5 "Row size"). */
const storedMax = 12 * 1024;

export const GetObjectTagging: HandlerOf<'GetObjectTagging'> = async (_ctx, call) => {
  const row = targetOf(call);
  const TagSet = (row.headers.tags ?? []).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply(tagging, 'Tagging', { TagSet }, versionHeader(call, row));
};

export const PutObjectTagging: HandlerOf<'PutObjectTagging'> = async (ctx, call) => {
  const row = await setTags(ctx, call, tagsIn(call.body));
  return emptyReply(200, versionHeader(call, row));
};

export const DeleteObjectTagging: HandlerOf<'DeleteObjectTagging'> = async (ctx, call) => {
  const row = await setTags(ctx, call, []);
  return emptyReply(204, versionHeader(call, row));
};

async function setTags(ctx: Context, call: BucketCall, tags: Tags): Promise<ObjectRow> {
  const { bucket, key, query, record, requestId } = call;
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

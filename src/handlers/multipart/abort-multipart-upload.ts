/** AbortMultipartUpload: idempotent; the parts go to the deletion queue. */
import { abortUpload } from '../../domain/uploads/upload-session.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { readUploadName } from './upload-name.ts';

export const AbortMultipartUpload: HandlerOf<'AbortMultipartUpload'> = async (ctx, request) => {
  await abortUpload(ctx, readUploadName(request), request);
  return emptyReply(204);
};

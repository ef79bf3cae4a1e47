/** AbortMultipartUpload: idempotent; the parts go to the deletion queue. */
import { abortUpload } from '../../domain/uploads/upload-session.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { uploadNameOf } from './upload-name.ts';

export const AbortMultipartUpload: HandlerOf<'AbortMultipartUpload'> = async (ctx, request) => {
  await abortUpload(ctx, uploadNameOf(request), request);
  return emptyReply(204);
};

/** AbortMultipartUpload (spec "AbortMultipartUpload"): idempotent; the parts go to the deletion queue. */
import { abortUpload } from '../../domain/upload-session.ts';
import type { HandlerOf } from '../call.ts';
import { emptyReply } from '../xml-reply.ts';
import { uploadNameOf } from './upload-name.ts';

export const AbortMultipartUpload: HandlerOf<'AbortMultipartUpload'> = async (ctx, call) => {
  await abortUpload(ctx, uploadNameOf(call), call);
  return emptyReply(204);
};

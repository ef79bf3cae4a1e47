/** The reply to a form that asks for status 201 (public API "POST Object"), written without a namespace. */
import { element, type Infer, text, token } from '../../formats/codec.ts';

export const postResponse = element({ Location: text, Bucket: token, Key: text, ETag: token });
export type PostResponse = Infer<typeof postResponse>;

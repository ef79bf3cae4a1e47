/** The body of the tagging operations of buckets and objects. */
import { element, type Infer, limitedByHandler, many, text } from '../formats/codec.ts';

export const tag = element({ Key: text, Value: text });
export type Tag = Infer<typeof tag>;

/** How many a bucket and an object may have is their handlers' to check, with the error that says so. */
export const tagging = element({ TagSet: many(tag, { name: 'Tag', ...limitedByHandler }) });
export type Tagging = Infer<typeof tagging>;

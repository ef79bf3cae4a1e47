/** The body of the tagging operations of buckets and objects. */
import { element, type Infer, limitedByHandler, many, text } from '../formats/codec.ts';

export const tag = element({ Key: text, Value: text });
export type Tag = Infer<typeof tag>;

/** The handlers check the number of tags, with the error of a bucket or an object. */
export const tagging = element({ TagSet: many(tag, { name: 'Tag', ...limitedByHandler }) });
export type Tagging = Infer<typeof tagging>;

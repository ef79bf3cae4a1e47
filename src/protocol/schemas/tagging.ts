/** The body of the tagging operations of buckets and objects. */
import { element, type Infer, many, text } from '../codec.ts';

export const tag = element({ Key: text, Value: text });
export type Tag = Infer<typeof tag>;

/** 50 is the bound of a bucket; an object's 10 is its handler's to check, with the error that names it. */
export const tagging = element({ TagSet: many(tag, { name: 'Tag', max: 50 }) });
export type Tagging = Infer<typeof tagging>;

/** The families of bucket configurations that the domain itself reads; a document's shape is its XML's. */
import { family } from './documents.ts';

export interface Tagging {
  readonly TagSet: readonly { readonly Key: string; readonly Value: string }[];
}
export const bucketTagging = family<Tagging>('tagging');

/**
 * Documents: texts of any size under ids that are never reused (bucket configurations). A text is stored in segments, so that a row
 * stays small; the id contains their number.
 */
import type { At, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import { documents } from './records.ts';

/** In UTF-16 units: at most three bytes each, so a segment stays well below the row limit. */
const segmentMax = 6_000;
/** A document is at most this many segments: 3 MB of ASCII, more than any family takes. */
export const segmentsMax = 512;

const documentAt = (id: string): At<typeof documents> => ({ table: documents, in: { id } });

/** @param unique a fresh identifier */
export const documentId = (unique: string, text: string): string =>
  `${unique}.${Math.max(1, Math.ceil(text.length / segmentMax))}`;

const segmentCountIn = (id: string): number => Number(id.slice(id.lastIndexOf('.') + 1));

export async function writeDocument(
  metadata: Pick<MetadataStore, 'apply'>,
  id: string,
  text: string,
): Promise<void> {
  const count = segmentCountIn(id);
  if (count > segmentsMax) throw new Error(`a document of ${text.length} characters is too long`);
  for (let segment = 0; segment < count; segment += 1) {
    const stretch = text.slice(segment * segmentMax, (segment + 1) * segmentMax);
    await metadata.apply([{ at: documentAt(id), put: { id, segment, text: stretch } }]);
  }
}

/** The text, or undefined when the document was removed. */
export async function readText(
  metadata: Pick<MetadataStore, 'scan'>,
  id: string,
): Promise<string | undefined> {
  const rows = await metadata.scan(documentAt(id)).next(segmentsMax);
  return rows.length === segmentCountIn(id) ? rows.map(({ row }) => row.text).join('') : undefined;
}

/** Removes a document, in the commit that removes the reference to it. */
export const documentRemovals = (id: string): SideChange[] =>
  Array.from({ length: segmentCountIn(id) }, (_, segment) => ({ at: documentAt(id), remove: { segment } }));

/** Multipart sessions: row 0 of an upload's partition is the session, the others its parts. */
import type { At, Cursor, MetadataStore, Outcome, SideChange, Stored } from '../../ports/metadata-store.ts';
import {
  type UploadIndexRow,
  type UploadPart,
  type UploadRow,
  type UploadSession,
  uploadIndex,
  uploads,
} from '../tables.ts';
import { putAge, removeAge, uploadAge } from './ages.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan'>;

export const uploadAt = (uploadId: string): At<typeof uploads> => ({ table: uploads, in: { uploadId } });
export const uploadsIn = (bucketId: string): At<typeof uploadIndex> => ({
  table: uploadIndex,
  in: { bucketId },
});

/** Row 0 of an upload, with its session. */
export interface StoredSession {
  readonly row: UploadRow & { readonly session: UploadSession };
  readonly revision: Stored<UploadRow>['revision'];
}

export async function findSession(metadata: Metadata, uploadId: string): Promise<StoredSession | undefined> {
  const found = await metadata.get(uploadAt(uploadId), { part: 0 });
  const session = found?.row.session;
  return found && session && { row: { ...found.row, session }, revision: found.revision };
}

export const findSessionPart = (
  metadata: Metadata,
  uploadId: string,
  part: number,
): Promise<Stored<UploadRow> | undefined> => metadata.get(uploadAt(uploadId), { part });

/** The parts of a session in order, after a part number. */
export const scanParts = (metadata: Metadata, uploadId: string, after = 0): Cursor<typeof uploads> =>
  metadata.scan(uploadAt(uploadId), { after: { part: after } });

/** All parts of a session, in pages. */
export async function* everyPart(
  metadata: Metadata,
  uploadId: string,
): AsyncGenerator<Stored<UploadRow> & { readonly stored: UploadPart }> {
  const cursor = scanParts(metadata, uploadId);
  for (let page = await cursor.next(250); page.length > 0; page = await cursor.next(250)) {
    for (const found of page)
      if (found.row.stored !== undefined) yield { ...found, stored: found.row.stored };
  }
}

export const toIndexRow = (uploadId: string, session: UploadSession): UploadIndexRow => ({
  bucketId: session.bucketId,
  key: session.key,
  uploadId,
  initiated: session.initiated,
  storageClass: session.storageClass,
  owner: session.owner,
  initiator: session.initiator,
  ...(session.checksumAlgorithm === undefined ? {} : { checksumAlgorithm: session.checksumAlgorithm }),
  ...(session.checksumType === undefined ? {} : { checksumType: session.checksumType }),
});

/** Whether a session is in the list of open ones. */
export const isIndexed = async (
  metadata: Metadata,
  uploadId: string,
  { bucketId, key }: UploadSession,
): Promise<boolean> => (await metadata.get(uploadsIn(bucketId), { key, uploadId })) !== undefined;

/** Adds a session to the list of open ones, and to the age index. */
export const indexed = (uploadId: string, session: UploadSession): readonly SideChange[] => [
  { at: uploadsIn(session.bucketId), put: toIndexRow(uploadId, session) },
  putAge(uploadAge(uploadId, session)),
];

/** Removes a session from the list of open ones, and from the age index. */
export const unindexed = (uploadId: string, session: UploadSession): readonly SideChange[] => [
  { at: uploadsIn(session.bucketId), remove: { key: session.key, uploadId } },
  removeAge(uploadAge(uploadId, session)),
];

/** Moves a session to its next state; refused when anything changed since it was read. */
export const replaceSession = (
  metadata: Pick<MetadataStore, 'commit'>,
  found: StoredSession,
  next: {
    readonly session: UploadSession;
    readonly then?: readonly SideChange[];
    readonly expiresAt?: number;
  },
): Promise<Outcome<typeof uploads>> =>
  metadata.commit(
    uploadAt(found.row.uploadId),
    [
      {
        put: { ...found.row, session: next.session },
        expect: found.revision,
        ...(next.expiresAt === undefined ? {} : { expiresAt: next.expiresAt }),
      },
    ],
    next.then === undefined ? {} : { then: next.then },
  );

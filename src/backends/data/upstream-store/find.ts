/** The extents upstream under a prefix of ids: objects with their back-references, and incomplete uploads. */
import { type FoundExtent, type Owner, unknownSize } from '../../../ports/storage/object-bytes.ts';
import { listing, readAnswer, uploadListing } from './client/answers.ts';
import type { Connection } from './client/connection.ts';
import { retrying } from './client/retry.ts';
import { ownerIn, parseKey } from './names.ts';
import { headObject, type UpstreamUpload } from './uploads/uploads.ts';

/** Back-references are read one by one, several concurrently. */
const headsMax = 16;

export async function* findExtents(connection: Connection, prefix: string): AsyncGenerator<FoundExtent> {
  const under = `${connection.prefix}${prefix}`;
  for await (const page of listObjects(connection, under)) {
    for (let from = 0; from < page.length; from += headsMax) {
      const found = await Promise.all(
        page.slice(from, from + headsMax).map((each) => lookAt(connection, each)),
      );
      for (const each of found) if (each !== undefined) yield each;
    }
  }
  for await (const { key } of listUploads(connection, under)) {
    const id = parseKey(connection.prefix, key);
    if (id !== undefined)
      yield { extent: { cluster: connection.id, id, size: unknownSize }, owner: ownerOfUnfinished(id) };
  }
}

/** Undefined for an object that no gateway stored, and for one that was deleted since it was listed. */
async function lookAt(connection: Connection, key: string): Promise<FoundExtent | undefined> {
  const id = parseKey(connection.prefix, key);
  const stored = id === undefined ? undefined : await headObject(connection, key);
  const owner = stored && ownerIn(stored.headers);
  if (id === undefined || stored === undefined || owner === undefined) return undefined;
  return { extent: { cluster: connection.id, id, size: stored.size }, owner };
}

/** An upload shows nothing but its name: what belongs to a session carries the session's id at its end. */
function ownerOfUnfinished(id: string): Owner {
  const [, uploadId] = /\.([0-9a-f]{32})$/.exec(id) ?? [];
  return { bucketId: '', key: '', ...(uploadId === undefined ? {} : { uploadId }) };
}

async function* listObjects(connection: Connection, prefix: string): AsyncGenerator<readonly string[]> {
  let token: string | undefined;
  do {
    const query: [string, string][] = [
      ['list-type', '2'],
      ['prefix', prefix],
    ];
    if (token !== undefined) query.push(['continuation-token', token]);
    const page = await retrying(connection, {}, async () => {
      const { bytes } = await connection.client.ask({ method: 'GET', query });
      return readAnswer(listing, 'ListBucketResult', bytes);
    });
    yield page.Contents.map(({ Key }) => Key);
    token = page.IsTruncated ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

export async function* listUploads(connection: Connection, prefix: string): AsyncGenerator<UpstreamUpload> {
  let after: readonly [string, string][] | undefined = [];
  while (after !== undefined) {
    const query: readonly [string, string][] = [['uploads', ''], ['prefix', prefix], ...after];
    const page = await retrying(connection, {}, async () => {
      const { bytes } = await connection.client.ask({ method: 'GET', query });
      return readAnswer(uploadListing, 'ListMultipartUploadsResult', bytes);
    });
    for (const { Key, UploadId } of page.Upload) yield { key: Key, uploadId: UploadId };
    const { NextKeyMarker, NextUploadIdMarker = '' } = page;
    after =
      page.IsTruncated && NextKeyMarker !== undefined
        ? [
            ['key-marker', NextKeyMarker],
            ['upload-id-marker', NextUploadIdMarker],
          ]
        : undefined;
  }
}

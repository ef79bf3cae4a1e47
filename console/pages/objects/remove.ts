/** Deletes objects and versions in batches, and collects what the gateway refuses. */
import { sha256 } from '@noble/hashes/sha2.js';
import { Refused } from '../../app/client.ts';
import { storage } from '../../storage/client.ts';
import { childrenOf, escapeXml, textIn } from '../../storage/xml.ts';

const batchMax = 1_000;

/** Without a version the present one is deleted, or hidden by a marker where the bucket keeps versions. */
export interface ToRemove {
  readonly key: string;
  readonly versionId?: string | undefined;
  /** Deleted only where this is still its ETag. */
  readonly etag?: string | undefined;
}

export type Marker = Required<Pick<ToRemove, 'key' | 'versionId'>>;

export interface NotDone {
  readonly key: string;
  readonly code: string;
  readonly reason: string;
}

export interface Removed {
  readonly failed: readonly NotDone[];
  /** The delete markers that hide what was deleted: without them it is back. */
  readonly markers: readonly Marker[];
}

/** XML cannot hold these characters, not even by number: such keys are deleted one by one. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const notInXml = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;

const escapeKey = (key: string): string =>
  escapeXml(key).replace(/[\t\n\r]/g, (char) => `&#${char.charCodeAt(0)};`);

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

export const notDone = (key: string, cause: unknown): NotDone =>
  cause instanceof Refused
    ? { key, code: cause.code, reason: cause.message }
    : { key, code: '', reason: cause instanceof Error ? cause.message : String(cause) };

/** @throws Refused where a request itself is refused, Unreachable, AbortError */
export async function removeObjects(
  bucket: string,
  objects: readonly ToRemove[],
  signal: AbortSignal,
): Promise<Removed> {
  const done: Removed[] = [];
  const inXml = objects.filter(({ key }) => !notInXml.test(key));
  for (let at = 0; at < inXml.length; at += batchMax)
    done.push(await removeBatch(bucket, inXml.slice(at, at + batchMax), signal));
  for (const each of objects.filter(({ key }) => notInXml.test(key)))
    done.push(await removeOne(bucket, each, signal));
  return { failed: done.flatMap(({ failed }) => failed), markers: done.flatMap(({ markers }) => markers) };
}

async function removeOne(
  bucket: string,
  { key, versionId, etag }: ToRemove,
  signal: AbortSignal,
): Promise<Removed> {
  try {
    const headers = etag === undefined || etag === '' ? {} : { 'if-match': etag };
    const { header } = await storage({
      method: 'DELETE',
      bucket,
      key,
      query: { versionId },
      headers,
      signal,
    });
    const marker = versionId === undefined && header('x-amz-delete-marker') === 'true';
    return {
      failed: [],
      markers: marker ? [{ key, versionId: header('x-amz-version-id') ?? '' }] : [],
    };
  } catch (cause) {
    if (!(cause instanceof Refused)) throw cause;
    return { failed: [notDone(key, cause)], markers: [] };
  }
}

async function removeBatch(
  bucket: string,
  batch: readonly ToRemove[],
  signal: AbortSignal,
): Promise<Removed> {
  const objects = batch
    .map(({ key, versionId, etag }) => {
      const condition = etag === undefined || etag === '' ? '' : `<ETag>${escapeXml(etag)}</ETag>`;
      const version = versionId === undefined ? '' : `<VersionId>${escapeXml(versionId)}</VersionId>`;
      return `<Object><Key>${escapeKey(key)}</Key>${version}${condition}</Object>`;
    })
    .join('');
  const body = `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${objects}</Delete>`;
  const checksum = toBase64(sha256(new TextEncoder().encode(body)));
  const { xml } = await storage({
    method: 'POST',
    bucket,
    query: { delete: '' },
    headers: { 'x-amz-checksum-sha256': checksum, 'x-amz-sdk-checksum-algorithm': 'SHA256' },
    body,
    signal,
  });
  if (xml === undefined) return { failed: [], markers: [] };
  return {
    failed: childrenOf(xml, 'Error').map((error) => ({
      key: textIn(error, 'Key') ?? '',
      code: textIn(error, 'Code') ?? '',
      reason: textIn(error, 'Message') ?? '',
    })),
    markers: childrenOf(xml, 'Deleted').flatMap((each) => {
      const versionId = textIn(each, 'DeleteMarkerVersionId');
      const isNew = versionId !== undefined && textIn(each, 'VersionId') === undefined;
      return isNew ? [{ key: textIn(each, 'Key') ?? '', versionId }] : [];
    }),
  };
}

/** Copies an object inside of the gateway: in one request, or in parts where it is larger than one request may copy. */
import { encode } from '../../../src/signing/signing-key.ts';
import { Refused } from '../../app/client.ts';
import { type StorageReply, storage } from '../../storage/client.ts';
import { childOf, childrenOf, escapeXml, textIn } from '../../storage/xml.ts';

const gib = 1_073_741_824;
/** The largest object that CopyObject takes. */
const copyMax = 5 * gib;
const partBytes = gib / 2;
const partsAtOnce = 4;

export interface Copy {
  readonly from: {
    readonly bucket: string;
    readonly key: string;
    readonly size: number;
    /** The copy is refused where the object is another one by now. */
    readonly etag?: string;
    readonly versionId?: string;
  };
  readonly to: { readonly bucket: string; readonly key: string };
  readonly isOverwriting: boolean;
  readonly signal: AbortSignal;
  /** Bytes that were copied since the last call. */
  readonly onBytes?: (bytes: number) => void;
}

/** @throws Refused, Unreachable, AbortError */
export async function copyObject(copy: Copy): Promise<void> {
  if (copy.from.size > copyMax) return copyInParts(copy);
  assertDone(
    await storage({
      method: 'PUT',
      ...copy.to,
      headers: { ...sourceOf(copy), ...conditionOf(copy) },
      signal: copy.signal,
    }),
  );
  copy.onBytes?.(copy.from.size);
}

const conditionOf = ({ isOverwriting }: Copy) => (isOverwriting ? {} : { 'if-none-match': '*' });

function sourceOf({ from: { bucket, key, etag, versionId } }: Copy): Readonly<Record<string, string>> {
  const version = versionId === undefined ? '' : `?versionId=${encode(versionId)}`;
  return {
    'x-amz-copy-source': `/${encode(bucket)}/${key.split('/').map(encode).join('/')}${version}`,
    ...(etag === undefined || etag === '' ? {} : { 'x-amz-copy-source-if-match': etag }),
  };
}

/** The status is sent before the work is done: an error may stand in the body of a 200. */
function assertDone({ xml }: StorageReply): Element | undefined {
  if (xml?.localName !== 'Error') return xml;
  throw new Refused(500, {
    code: textIn(xml, 'Code') ?? '',
    message: textIn(xml, 'Message') ?? '',
    requestId: textIn(xml, 'RequestId') ?? '',
  });
}

/** What an upload in parts does not take from its source by itself. */
const copiedHeaders = [
  'content-type',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'expires',
  'x-amz-storage-class',
];

async function copyInParts(copy: Copy): Promise<void> {
  const { from, to, signal } = copy;
  const { bucket, key, versionId } = from;
  const head = await storage({ method: 'HEAD', bucket, key, query: { versionId }, signal });
  const names = [...copiedHeaders, ...head.names().filter((name) => name.startsWith('x-amz-meta-'))];
  const described = Object.fromEntries(names.map((name) => [name, head.header(name)]));
  const tags = head.header('x-amz-tagging-count') === undefined ? '' : await readTags(copy);
  const begun = await storage({
    method: 'POST',
    ...to,
    query: { uploads: '' },
    headers: { ...described, ...(tags === '' ? {} : { 'x-amz-tagging': tags }) },
    signal,
  });
  const uploadId = begun.xml && textIn(begun.xml, 'UploadId');
  if (uploadId === undefined) throw new Error('the reply has no upload id');
  try {
    await complete(copy, uploadId, await copyParts(copy, uploadId));
  } catch (cause) {
    // Parts that no object will have cost space.
    storage({ method: 'DELETE', ...to, query: { uploadId } }).catch(() => {});
    throw cause;
  }
}

async function readTags({ from: { bucket, key, versionId }, signal }: Copy): Promise<string> {
  const { xml } = await storage({ method: 'GET', bucket, key, query: { tagging: '', versionId }, signal });
  const set = xml && childOf(xml, 'TagSet');
  const pairs = set === undefined ? [] : childrenOf(set, 'Tag');
  return pairs
    .map((tag) => `${encode(textIn(tag, 'Key') ?? '')}=${encode(textIn(tag, 'Value') ?? '')}`)
    .join('&');
}

/** @returns the ETags of the parts, in their order */
async function copyParts(copy: Copy, uploadId: string): Promise<readonly string[]> {
  const { from, to, signal, onBytes } = copy;
  const count = Math.ceil(from.size / partBytes);
  const etags = new Array<string>(count).fill('');
  let next = 0;
  const work = async () => {
    for (let part = next++; part < count; part = next++) {
      const start = part * partBytes;
      const end = Math.min(from.size, start + partBytes) - 1;
      const xml = assertDone(
        await storage({
          method: 'PUT',
          ...to,
          query: { partNumber: String(part + 1), uploadId },
          headers: { ...sourceOf(copy), 'x-amz-copy-source-range': `bytes=${start}-${end}` },
          signal,
        }),
      );
      etags[part] = (xml && textIn(xml, 'ETag')) ?? '';
      onBytes?.(end - start + 1);
    }
  };
  await Promise.all(Array.from({ length: partsAtOnce }, work));
  return etags;
}

async function complete(copy: Copy, uploadId: string, etags: readonly string[]): Promise<void> {
  const parts = etags
    .map((etag, part) => `<Part><PartNumber>${part + 1}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`)
    .join('');
  assertDone(
    await storage({
      method: 'POST',
      ...copy.to,
      query: { uploadId },
      headers: conditionOf(copy),
      body: `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts}</CompleteMultipartUpload>`,
      signal: copy.signal,
    }),
  );
}

/** Deletes keys in batches, and collects what the gateway refuses. */
import { sha256 } from '@noble/hashes/sha2.js';
import { Refused } from '../../app/client.ts';
import { storage } from '../../storage/client.ts';
import { childrenOf, escapeXml, textIn } from '../../storage/xml.ts';

const batchMax = 1_000;

export interface NotDeleted {
  readonly key: string;
  readonly reason: string;
}

/** XML cannot hold these characters, not even by number: such keys are deleted one by one. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const notInXml = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;

const escapeKey = (key: string): string =>
  escapeXml(key).replace(/[\t\n\r]/g, (char) => `&#${char.charCodeAt(0)};`);

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

/** @throws Refused where the request itself is refused, Unreachable */
export async function removeObjects(bucket: string, keys: readonly string[]): Promise<readonly NotDeleted[]> {
  const failed: NotDeleted[] = [];
  const inXml = keys.filter((key) => !notInXml.test(key));
  for (let at = 0; at < inXml.length; at += batchMax)
    failed.push(...(await removeBatch(bucket, inXml.slice(at, at + batchMax))));
  for (const key of keys.filter((each) => notInXml.test(each))) {
    try {
      await storage({ method: 'DELETE', bucket, key });
    } catch (cause) {
      if (!(cause instanceof Refused)) throw cause;
      failed.push({ key, reason: cause.message });
    }
  }
  return failed;
}

async function removeBatch(bucket: string, keys: readonly string[]): Promise<readonly NotDeleted[]> {
  const objects = keys.map((key) => `<Object><Key>${escapeKey(key)}</Key></Object>`).join('');
  const body = `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>${objects}</Delete>`;
  const checksum = toBase64(sha256(new TextEncoder().encode(body)));
  const { xml } = await storage({
    method: 'POST',
    bucket,
    query: { delete: '' },
    headers: { 'x-amz-checksum-sha256': checksum, 'x-amz-sdk-checksum-algorithm': 'SHA256' },
    body,
  });
  if (xml === undefined) return [];
  return childrenOf(xml, 'Error').map((error) => ({
    key: textIn(error, 'Key') ?? '',
    reason: textIn(error, 'Message') ?? textIn(error, 'Code') ?? '',
  }));
}

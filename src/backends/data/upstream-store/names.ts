/** One upstream as the files beside this one use it; the name of an extent there, and the back-reference beside it. */
import type { SharedBudget } from '../../../base/shared-budget.ts';
import { textFromBase64, textToBase64 } from '../../../base/text/base64.ts';
import { decodeUtf8 } from '../../../base/text/utf8.ts';
import type { Hasher } from '../../../ports/cryptography.ts';
import type { MarkedPlace, Owner, StoredMark } from '../../../ports/object-bytes.ts';
import { amz } from '../../../protocol/dialect.ts';
import { encode } from '../../../signing/signing-key.ts';
import type { WriteBudget } from '../write-budget.ts';
import { isGone, UpstreamError } from './answers.ts';
import type { RetryContext, UpstreamClient } from './client.ts';
import type { HashVerification } from './hash-verification.ts';

/** An extent is one object upstream, so its number is always this one; it ends the id in a listing by prefix. */
const ending = '.0';

export const toKey = (prefix: string, id: string): string => `${prefix}${id}${ending}`;

/** Undefined for what is not called as extents are. */
export const parseKey = (prefix: string, key: string): string | undefined =>
  key.startsWith(prefix) && key.endsWith(ending) && /^[\w.-]+$/.test(key.slice(prefix.length))
    ? key.slice(prefix.length, -ending.length)
    : undefined;

const meta = `${amz.headerPrefix}meta-sluice-`;
/** The owner's key is readable for people, as far as it fits: upstreams take 2 KiB of metadata. */
const names = { key: `${meta}key`, longKey: `${meta}key-base64`, rest: `${meta}owner` } as const;
const readableMax = 1400;

export function ownerHeaders({ key, ...rest }: Owner): Readonly<Record<string, string>> {
  const readable = encode(key);
  return {
    ...(readable.length <= readableMax ? { [names.key]: readable } : { [names.longKey]: textToBase64(key) }),
    [names.rest]: JSON.stringify(rest),
  };
}

/** Undefined for an object that no gateway stored. */
export function ownerIn(headers: Readonly<Record<string, string>>): Owner | undefined {
  const { [names.key]: readable, [names.longKey]: long, [names.rest]: rest } = headers;
  try {
    const key = readable !== undefined ? decodeURIComponent(readable) : long && textFromBase64(long);
    if (key === undefined || rest === undefined) return undefined;
    const { bucketId, ...others } = JSON.parse(rest) as Omit<Owner, 'key'>;
    return { bucketId, key, ...others };
  } catch {
    return undefined;
  }
}

// The mark of the installation that a bucket belongs to, under the prefix of the extents. Its name is not that of an
// extent, so that listings, fsck and the sweep skip it.

const markName = 'installation.json';
/** A start waits for it. */
const timeoutMs = 5_000;

export function markIn({ id, bucket, prefix, client }: Connection): MarkedPlace {
  const key = `${prefix}${markName}`;
  const read = async (): Promise<StoredMark | undefined> => {
    try {
      const { bytes, headers } = await client.ask({ method: 'GET', key, timeoutMs });
      return {
        text: decodeUtf8(bytes),
        revision: headers['etag'] ?? '',
      };
    } catch (cause) {
      if (isGone(cause, 'NoSuchKey')) return undefined;
      throw cause;
    }
  };
  return {
    cluster: id,
    id,
    path: `bucket ${bucket} at ${key}`,
    read,

    async write(text, former) {
      const put = (headers: Readonly<Record<string, string>>): Promise<unknown> =>
        client.ask({
          method: 'PUT',
          key,
          headers: { 'content-type': 'application/json', ...headers },
          body: new TextEncoder().encode(text),
          timeoutMs,
        });
      try {
        await put(unchanged(former));
      } catch (cause) {
        // Another gateway was first: what it wrote is compared.
        if (isGone(cause, 'NoSuchKey')) return;
        const { status } = cause instanceof UpstreamError ? cause : { status: 0 };
        if (status === 412 || status === 409) return;
        if (status !== 501) throw cause;
        // An upstream without conditional writes: a gateway that writes between this read and the write is not seen.
        const now = await read();
        if (now?.text === former?.text && now?.revision === former?.revision) await put({});
      }
    },
  };
}

/** The condition that no other gateway has written since the former mark was read. */
function unchanged(former: StoredMark | undefined): Readonly<Record<string, string>> {
  if (former === undefined) return { 'if-none-match': '*' };
  return former.revision === '' ? {} : { 'if-match': former.revision };
}

export interface Connection extends RetryContext {
  /** The cluster's id. */
  readonly id: string;
  readonly bucket: string;
  readonly prefix: string;
  /** Whom its use counts for. */
  readonly account?: string | undefined;
  readonly client: UpstreamClient;
  readonly hashVerification: HashVerification;
  readonly hasher: Hasher;
  /** Bounds what all uploads hold in memory together. */
  readonly budget: WriteBudget | undefined;
  /** For bodies of unknown length: a part of them is held whole. */
  readonly partMemory: Pick<SharedBudget, 'take' | 'give'>;
}

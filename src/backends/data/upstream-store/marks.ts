/**
 * The mark of the installation that a bucket belongs to, under the prefix of the extents. Its name is not that of an
 * extent, so that listings, fsck and the sweep skip it.
 */
import type { MarkedPlace, StoredMark } from '../../../ports/storage/object-bytes.ts';
import type { Connection } from './client/connection.ts';
import { isGone, UpstreamError } from './client/upstream-error.ts';

const markName = 'installation.json';
/** A start waits for it. */
const timeoutMs = 5_000;

export function markIn({ id, bucket, prefix, client }: Connection): MarkedPlace {
  const key = `${prefix}${markName}`;
  const read = async (): Promise<StoredMark | undefined> => {
    try {
      const { bytes, headers } = await client.ask({ method: 'GET', key, timeoutMs });
      return { text: new TextDecoder().decode(bytes), revision: headers['etag'] ?? '' };
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

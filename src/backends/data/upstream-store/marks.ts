/**
 * The mark of the installation that a bucket belongs to, under the prefix of the extents. Its name is not that of an
 * extent, so that listings, fsck and the sweep skip it.
 */
import type { ClusterMarks } from '../../../ports/object-bytes.ts';
import type { Connection } from './connection.ts';
import { isGone, UpstreamError } from './upstream-error.ts';

const markName = 'installation.json';
/** A start waits for it. */
const timeoutMs = 5_000;

export function marksOf(connectionTo: (cluster: string) => Connection): ClusterMarks {
  const keyIn = ({ prefix }: Connection): string => `${prefix}${markName}`;
  return {
    placeOf(cluster) {
      const connection = connectionTo(cluster);
      return `bucket ${connection.bucket} at ${keyIn(connection)}`;
    },

    async read(cluster) {
      const connection = connectionTo(cluster);
      try {
        const { bytes } = await connection.client.ask({ method: 'GET', key: keyIn(connection), timeoutMs });
        return new TextDecoder().decode(bytes);
      } catch (cause) {
        if (isGone(cause, 'NoSuchKey')) return undefined;
        throw cause;
      }
    },

    async write(cluster, text, { replaces }) {
      const connection = connectionTo(cluster);
      const put = (headers: Readonly<Record<string, string>>): Promise<unknown> =>
        connection.client.ask({
          method: 'PUT',
          key: keyIn(connection),
          headers: { 'content-type': 'application/json', ...headers },
          body: new TextEncoder().encode(text),
          timeoutMs,
        });
      try {
        await put(replaces ? {} : { 'if-none-match': '*' });
      } catch (cause) {
        const { status } = cause instanceof UpstreamError ? cause : { status: 0 };
        // Another gateway was first: what it wrote is compared.
        if (status === 412 || status === 409) return;
        if (status !== 501) throw cause;
        // An upstream without conditional writes.
        await put({});
      }
    },
  };
}

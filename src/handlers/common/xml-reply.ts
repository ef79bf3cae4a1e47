/** Replies with an XML body. */
import { writeXml, type Xml } from '../../protocol/formats/codec.ts';
import type { HeaderPair, Reply } from '../../protocol/reply.ts';

export function xmlReply<T>(
  schema: Xml<T>,
  root: string,
  value: T,
  headers: readonly HeaderPair[] = [],
): Reply {
  return {
    status: 200,
    headers: [['Content-Type', 'application/xml'], ...headers],
    body: writeXml(schema, root, value),
  };
}

export const emptyReply = (status: number, headers: readonly HeaderPair[] = []): Reply => ({
  status,
  headers,
});

/** Replies of the Node listener itself, to what never becomes a request: an error like any other, then the end. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { drawRequestId } from '../../domain/objects/version-ids.ts';
import type { ErrorCode } from '../../errors/codes.ts';
import { fail } from '../../errors/refusal.ts';
import { systemRandom } from '../../ports/random.ts';
import { renderHeaders, renderRefusal } from '../../protocol/reply/render.ts';
import type { Reply } from '../../protocol/reply/reply.ts';

const random = systemRandom();

/** An invalid request has no dialect, so the reply has the request id under both names. */
export function refusal(code: ErrorCode, message?: string): Reply {
  const requestId = drawRequestId(random);
  const refused = message === undefined ? fail(code) : fail(code, message);
  const reply = renderRefusal(refused, { requestId, resource: '', isHead: false, format: 'xml' });
  return { ...reply, headers: renderHeaders([['*-request-id', requestId], ...reply.headers], undefined) };
}

/** Long enough for a client that is still sending to see the reply before the reset. */
const lingerMs = 500;

/** Writes to the socket directly, because node:http's parser has given up on it. */
export function refuseSocket(socket: Duplex, error: Error & { readonly code?: string }): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const { status, headers, body } = buildRefusal(error);
  const length = ['Content-Length', String(Buffer.byteLength(body as string))];
  const lines = [...headers, ['Connection', 'close'], length].map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'));
  setTimeout(() => socket.destroy(), lingerMs);
}

/** node's `code` of a clientError → the refusal that the client gets. */
function buildRefusal(error: { readonly code?: string }): Reply {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return refusal('RequestHeaderSectionTooLarge');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refusal('RequestTimeout', 'The headers of the request did not arrive in time.');
    default:
      return refusal('BadRequest');
  }
}

/** Replies of the Node listener itself, to what never becomes a request: no dialect, no request id, then the end. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorCode } from '../errors/codes.ts';
import { errorCatalogue } from '../protocol/errors.ts';
import type { Reply } from '../protocol/reply.ts';

export function refusal(code: ErrorCode, message: string = errorCatalogue[code].message): Reply {
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
  return {
    status: errorCatalogue[code].status,
    headers: [['Content-Type', 'application/xml']],
    body,
  };
}

/** Long enough for a client that is still sending to see the reply before the reset. */
const lingerMs = 500;

/** Written past node:http, whose parser has given up on this socket. */
export function refuseSocket(socket: Duplex, error: Error & { readonly code?: string }): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const { status, body } = refusalOf(error);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/xml\r\nConnection: close`;
  socket.end(`${head}\r\nContent-Length: ${Buffer.byteLength(body as string)}\r\n\r\n${body}`);
  setTimeout(() => socket.destroy(), lingerMs);
}

/** node's `code` of a clientError → what the client is told. */
function refusalOf(error: { readonly code?: string }): Reply {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return refusal('RequestHeaderSectionTooLarge');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refusal('RequestTimeout', 'The headers of the request did not arrive in time.');
    default:
      return refusal('BadRequest');
  }
}

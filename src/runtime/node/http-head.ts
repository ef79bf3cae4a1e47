/**
 * The head of an HTTP/1.1 request, and the lines of a chunked body (RFC 9112). Everything that is not in the grammar is refused: a lenient
 * reading that differs from that of a proxy lets one request hide in another. `http-differential.test.ts` shows that whatever is read here,
 * the parser of node:http reads in the same way.
 */
import { http } from './http.ts';

/** Request line and headers together; the trailers of a body have the same limit. */
export const headBytesMax = 32 * 1024;

export interface Head {
  readonly method: string;
  readonly url: string;
  readonly httpVersionMajor: 1;
  readonly httpVersionMinor: 0 | 1;
  /** Name, value, name, value, as they arrived. */
  readonly rawHeaders: string[];
  /** The length of the body; -1 for a body in chunks. */
  readonly bodyBytes: number;
  readonly keepsAlive: boolean;
  readonly awaitsContinue: boolean;
}

/** What the connection is refused for, with the codes of node:http. */
export class HttpFault extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const invalid = (message: string): HttpFault => new HttpFault('HPE_INVALID', message);

/** A tunnel is not served. `SOURCE` is of another protocol. */
const methods = new Set(http.METHODS.filter((method) => method !== 'CONNECT' && method !== 'SOURCE'));

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const requestLine =
  /^([A-Z-]{1,32}) ((?:\/|https?:\/\/[A-Za-z0-9._~:[\]-]+(?:[/?]|(?= )))[\x21-\x7e]*|\*) HTTP\/1\.([01])$/i;
/** Control characters, and a CR or LF without the other. A CR at the end may still get its LF. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const misplaced = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?=[^\n])|(?<!\r)\n/;
const expectsContinue = /(?:^|\W)100-continue(?:$|\W)/i;

/** Throws when bytes that may be the beginning of a head cannot become one. */
export function checkBegin(text: string): void {
  if (text.length > headBytesMax) throw new HttpFault('HPE_HEADER_OVERFLOW', 'the head is too long');
  if (misplaced.test(text)) throw invalid('a control character in the head');
}

/** @param text the head without its last two line ends */
export function parseHead(text: string): Head {
  checkBegin(text);
  if (text.endsWith('\r')) throw invalid('a control character in the head');
  const lineEnd = text.indexOf('\r\n');
  const line = requestLine.exec(lineEnd < 0 ? text : text.slice(0, lineEnd));
  const method = line?.[1] as string;
  // The expression ignores case because of the scheme; the protocol's name and methods have one case.
  if (line === null || !line[0].endsWith(`HTTP/1.${line[3]}`) || !methods.has(method))
    throw invalid('the request line is invalid');
  const isLatest = line[3] === '1';
  const rawHeaders: string[] = [];
  const framing = new Framing(isLatest);
  if (lineEnd >= 0)
    readFields(text, lineEnd + 2, (name, value) => {
      rawHeaders.push(name, value);
      framing.see(name, value);
    });
  const { bodyBytes, keepsAlive, expectation } = framing.end();
  return {
    method,
    url: line[2] as string,
    httpVersionMajor: 1,
    httpVersionMinor: isLatest ? 1 : 0,
    rawHeaders,
    bodyBytes,
    keepsAlive,
    awaitsContinue: isLatest && expectation !== undefined && expectsContinue.test(expectation),
  };
}

/** The fields of a head, or of trailers; throws when a line is not a field. */
function readFields(text: string, from: number, take: (name: string, value: string) => void): void {
  for (let at = from; at <= text.length; ) {
    const found = text.indexOf('\r\n', at);
    const end = found < 0 ? text.length : found;
    const colon = text.indexOf(':', at);
    if (colon < 0 || colon > end) throw invalid('a header without a colon');
    const name = text.slice(at, colon);
    // A line that continues the one before it begins with a space, which is in no name.
    if (!token.test(name)) throw invalid('the name of a header is invalid');
    take(name, trimmed(text, colon + 1, end));
    at = end + 2;
  }
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09;

function trimmed(text: string, from: number, to: number): string {
  let [start, end] = [from, to];
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** Where the request ends, and whether its connection goes on. */
class Framing {
  readonly #isLatest: boolean;
  #length: number | undefined;
  #isChunked = false;
  #closes = false;
  #keeps = false;
  #expectation: string | undefined;

  constructor(isLatest: boolean) {
    this.#isLatest = isLatest;
  }

  see(name: string, value: string): void {
    // Compare lengths first, because most names are none of these.
    switch (name.length) {
      case 6:
        if (name.toLowerCase() === 'expect')
          this.#expectation = this.#expectation === undefined ? value : `${this.#expectation}, ${value}`;
        return;
      case 10:
        if (name.toLowerCase() === 'connection') this.#seeConnection(value);
        return;
      case 14:
        if (name.toLowerCase() === 'content-length') this.#seeLength(value);
        return;
      case 17:
        if (name.toLowerCase() === 'transfer-encoding') this.#seeCoding(value);
        return;
    }
  }

  #seeConnection(value: string): void {
    for (const option of value.toLowerCase().split(',')) {
      const word = option.trim();
      if (word === 'close') this.#closes = true;
      else if (word === 'keep-alive') this.#keeps = true;
    }
  }

  #seeLength(value: string): void {
    const length = Number(value);
    if (this.#length !== undefined || !/^\d{1,16}$/.test(value) || !Number.isSafeInteger(length))
      throw invalid('the length of the body is not one plain number');
    this.#length = length;
  }

  #seeCoding(value: string): void {
    if (this.#isChunked || value.toLowerCase() !== 'chunked' || !this.#isLatest)
      throw invalid('the only transfer coding is chunked');
    this.#isChunked = true;
  }

  end(): Pick<Head, 'bodyBytes' | 'keepsAlive'> & { readonly expectation: string | undefined } {
    if (this.#isChunked && this.#length !== undefined) throw invalid('a body has a length and chunks');
    return {
      bodyBytes: this.#isChunked ? -1 : (this.#length ?? 0),
      keepsAlive: !this.#closes && (this.#isLatest || this.#keeps),
      expectation: this.#expectation,
    };
  }
}

const chunkLine =
  /^([0-9a-f]{1,13})(?:;[!#$%&'*+.^_`|~0-9a-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9a-z-]+|"[\t \x21\x23-\x5b\x5d-\x7e]*"))?)*$/i;
/** A chunk's size and extensions. */
export const chunkLineBytesMax = 4096;

/** @returns the size of a chunk, 0 for the last one */
export function parseChunkLine(line: string): number {
  const size = chunkLine.exec(line)?.[1];
  if (size === undefined) throw invalid('the size of a chunk is invalid');
  return Number.parseInt(size, 16);
}

/** Throws when a line of the trailers is not a field. The gateway uses no trailers of HTTP, so they are dropped. */
export function checkTrailer(line: string): void {
  checkBegin(line);
  if (line.endsWith('\r')) throw invalid('a control character in the trailers');
  readFields(line, 0, () => {});
}

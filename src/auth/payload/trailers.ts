/** The part after the last chunk of a body: trailing headers, their signature, the end. */
import { fail } from '../../errors/refusal.ts';
import type { Dialect } from '../../protocol/dialect.ts';
import { malformedChunk } from './body-cursor.ts';

export interface TrailerRules {
  /** Lower-case names that must be sent; any other name is refused. */
  readonly announced: readonly string[];
  /** Receives the trailing headers. */
  readonly received: Map<string, string>;
}

/** Verifies the signature of trailing headers, each given as `name:value\n`. @throws SignatureDoesNotMatch */
export interface TrailerVerifier {
  verifyTrailers(signature: string, trailers: string): void;
}

const ascii = new TextDecoder('latin1');

/**
 * Lines end with CRLF. minio-go ends a trailer with LF and puts an empty line before the signature, so line
 * feeds count and empty lines do not; the end itself is one empty line, or the body is torn.
 */
export function readTrailers(
  end: Uint8Array,
  rules: TrailerRules | undefined,
  dialect: Dialect,
  chain: TrailerVerifier | undefined,
): void {
  const text = ascii.decode(end);
  if (rules === undefined) {
    if (text === '\r\n') return;
    throw '\r\n'.startsWith(text) ? fail('IncompleteBody') : malformedChunk();
  }
  if (text !== '\r\n' && !text.endsWith('\r\n\r\n')) throw fail('IncompleteBody');
  const lines = text.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  const signatureName = `${dialect.headerPrefix}trailer-signature`;
  let signed = '';
  let signature: string | undefined;
  for (const line of lines) {
    if (line === '') continue;
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase();
    const value = line.slice(colon + 1).trim();
    // The signature covers the lines before it, so no line may follow.
    if (name === '' || signature !== undefined || !isText(line)) throw malformedTrailer(line);
    if (chain !== undefined && name === signatureName) {
      signature = value;
      continue;
    }
    if (!rules.announced.includes(name) || rules.received.has(name)) throw malformedTrailer(line);
    rules.received.set(name, value);
    signed += `${name}:${value}\n`;
  }
  if (rules.received.size < rules.announced.length)
    throw fail('MalformedTrailerError', 'A trailing header that was announced did not come');
  if (chain === undefined) return;
  if (signature === undefined)
    throw fail('MalformedTrailerError', `The trailing headers end without ${signatureName}`);
  chain.verifyTrailers(signature, signed);
}

/** Checksums and signatures are ASCII; a control character would vanish in trimming. */
function isText(line: string): boolean {
  for (let i = 0; i < line.length; i++) {
    const code = line.charCodeAt(i);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

const malformedTrailer = (line: string) =>
  fail(
    'MalformedTrailerError',
    `The trailing header "${line.slice(0, 100)}" is malformed, repeated or was not announced`,
  );

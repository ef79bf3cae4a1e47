/**
 * Header values are bytes, one character each; text from a query, a form or an older client is Unicode. This is the way from one to the
 * other. Replies have printable ASCII only, because many clients cannot read a reply with any other byte in a header.
 */
import { fail } from '../../base/errors.ts';

const encoder = new TextEncoder();
/** Characters of a header name (RFC 9110 "token"). */
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const control = /[\0-\x08\x0a-\x1f\x7f]/;
const printable = /^[\t\x20-\x7e]*$/;

/** The bytes of a text in UTF-8, a character each. */
export const byteString = (text: string): string =>
  /^[\0-\x7f]*$/.test(text) ? text : String.fromCharCode(...encoder.encode(text));

/**
 * Checks a value from the query that will be sent in a header.
 * @throws InvalidArgument when no header can contain it: a line break would begin another header
 */
export function headerText(name: string, value: string): string {
  if (!token.test(name) || control.test(value)) {
    throw fail('InvalidArgument', {
      message: `${name} holds a character that no header can carry`,
      elements: { ArgumentName: name },
    });
  }
  return byteString(value);
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text that the bytes of a header stand for: UTF-8 where they are, else Latin-1. */
function textOfBytes(value: string): string {
  try {
    return utf8.decode(Uint8Array.from(value, (char) => char.charCodeAt(0)));
  } catch {
    return value;
  }
}

/** Longest encoded word, and what stands around its text (RFC 2047 §2). */
const wordMax = 75 - '=?UTF-8?Q??='.length;

/**
 * A value of user metadata as the public service returns it: as it was sent where that is printable ASCII, else in encoded words
 * (RFC 2047), of the kind that is shorter for most texts: Q where ASCII prevails, else B.
 */
export function encodeWords(value: string): string {
  if (printable.test(value)) return value;
  const text = textOfBytes(value);
  const ascii = text.replace(/[^\t\x20-\x7e]/gu, '').length;
  const kind = [...text].length - ascii > ascii ? 'B' : 'Q';
  const words: string[] = [];
  let word = '';
  let length = 0;
  for (const char of text) {
    const bytes = encoder.encode(char);
    const size = kind === 'B' ? bytes.length : quotedPrintable(char, bytes).length;
    // Four characters of base64 are three bytes.
    if (length + size > (kind === 'B' ? Math.floor(wordMax / 4) * 3 : wordMax)) {
      words.push(encodedWord(kind, word));
      [word, length] = ['', 0];
    }
    word += char;
    length += size;
  }
  words.push(encodedWord(kind, word));
  return words.join(' ');
}

function encodedWord(kind: 'B' | 'Q', text: string): string {
  const bytes = encoder.encode(text);
  const body =
    kind === 'B'
      ? btoa(String.fromCharCode(...bytes))
      : Array.from(text, (char) => quotedPrintable(char, encoder.encode(char))).join('');
  return `=?UTF-8?${kind}?${body}?=`;
}

function quotedPrintable(char: string, bytes: Uint8Array): string {
  if (/^[A-Za-z0-9!*+/-]$/.test(char)) return char;
  return char === ' ' ? '_' : Array.from(bytes, (byte) => `=${hex(byte)}`).join('');
}

const hex = (byte: number): string => byte.toString(16).toUpperCase().padStart(2, '0');
const percentEncode = (text: string, but: RegExp): string =>
  Array.from(text, (char) =>
    but.test(char) ? char : Array.from(encoder.encode(char), (byte) => `%${hex(byte)}`).join(''),
  ).join('');

/** `; name="value"` or `; name=value` of Content-Disposition and Content-Type. */
const parameter = /(;[ \t]*)([!#$&+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/g;

/**
 * A header of an object other than user metadata, in printable ASCII. A parameter with other characters, such as `filename`, gets an
 * extended twin (RFC 8187: `filename*=UTF-8''…`), which browsers prefer; all else is percent-encoded, as in an address.
 */
export function asciiHeader(value: string): string {
  if (printable.test(value)) return value;
  const text = textOfBytes(value);
  const twins = new Set(
    Array.from(text.matchAll(/;[ \t]*([^=;\s]+)\*=/g), ([, name]) => name?.toLowerCase()),
  );
  const extended = text.replace(
    parameter,
    (whole, gap: string, name: string, quoted?: string, bare?: string) => {
      if (printable.test(whole)) return whole;
      const input = quoted?.replace(/\\(.)/gs, '$1') ?? bare ?? '';
      const plain = `${gap}${name}="${input.replace(/[^\x20-\x7e]/gu, '_').replace(/["\\]/g, '\\$&')}"`;
      return twins.has(name.toLowerCase())
        ? plain
        : `${plain}; ${name}*=UTF-8''${percentEncode(input, /[A-Za-z0-9!#$&+.^_`|~-]/)}`;
    },
  );
  return percentEncode(extended, /[\t\x20-\x7e]/);
}

/** UTF-8 out of bytes, and into them. A decoder with its defaults drops a leading U+FEFF, with which the text of a tenant may begin. */

const lenient = new TextDecoder('utf-8', { ignoreBOM: true });
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const document = /* @__PURE__ */ new TextDecoder('utf-8', { fatal: true });

/** Bytes that are not UTF-8 become U+FFFD. */
export const decodeUtf8 = (bytes: Uint8Array): string => lenient.decode(bytes);

/** @throws TypeError for bytes that are not UTF-8 */
export const decodeUtf8Strictly = (bytes: Uint8Array): string => strict.decode(bytes);

/** A JSON or XML document, without the byte order mark that it may begin with. @throws TypeError for bytes that are not UTF-8 */
export const decodeDocument = (bytes: Uint8Array): string => document.decode(bytes);

const encoder = new TextEncoder();
const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

/** The bytes of a text in UTF-8, a character each. */
export const byteString = (text: string): string =>
  isAscii(text) ? text : String.fromCharCode(...encoder.encode(text));

/**
 * The text of a header value, which HTTP delivers as octets, one character each: UTF-8 where they are that, else Latin-1. A value that is
 * text already stays as it is.
 */
export function textOfOctets(value: string): string {
  if (isAscii(value)) return value;
  const bytes = new Uint8Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0xff) return value;
    bytes[i] = code;
  }
  try {
    return decodeUtf8Strictly(bytes);
  } catch {
    return value;
  }
}

/** UTF-8 out of bytes. A decoder with its defaults drops a leading U+FEFF, with which the text of a tenant may begin. */

const lenient = new TextDecoder('utf-8', { ignoreBOM: true });
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const document = new TextDecoder('utf-8', { fatal: true });

/** Bytes that are not UTF-8 become U+FFFD. */
export const decodeUtf8 = (bytes: Uint8Array): string => lenient.decode(bytes);

/** @throws TypeError for bytes that are not UTF-8 */
export const decodeUtf8Strictly = (bytes: Uint8Array): string => strict.decode(bytes);

/** A JSON or XML document, without the byte order mark that it may begin with. @throws TypeError for bytes that are not UTF-8 */
export const decodeDocument = (bytes: Uint8Array): string => document.decode(bytes);

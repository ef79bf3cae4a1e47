/** Header values are bytes, one character each; text from a query is Unicode. This is the way from one to the other. */
import { fail } from '../../errors/refusal.ts';

const encoder = new TextEncoder();
/** Characters of a header name (RFC 9110 "token"). */
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const control = /[\0-\x08\x0a-\x1f\x7f]/;

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

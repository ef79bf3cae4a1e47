/** Text for a terminal: names that tenants chose may have escape sequences, line breaks and marks that turn the direction of text. */

export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd');

// Trims in one pass. A pattern such as `/[ \t]+$/` searches from every blank to the end of its run, so a long run of blanks inside a
// text takes quadratic time.

/** The text without the characters of `set` at its end. */
export function trimEnd(text: string, set: string): string {
  let end = text.length;
  while (end > 0 && set.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** The text without the characters of `set` at both ends. */
export function trim(text: string, set: string): string {
  const rest = trimEnd(text, set);
  let start = 0;
  while (start < rest.length && set.includes(rest.charAt(start))) start += 1;
  return rest.slice(start);
}

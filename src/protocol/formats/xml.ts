/** The rules of XML 1.0 that reading and writing share: characters, escapes and references. */
import { fail, type Refusal } from '../../base/errors.ts';

export const s3Namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';
export const malformed = (message: string, cause?: unknown): Refusal =>
  fail('MalformedXML', cause === undefined ? { message } : { message, cause });

// A carriage return would be read back as a line feed. Line feed and tab are kept by every parser in an element's text.
// XML 1.0 cannot carry most control characters. They are written as references, as the public service does: a strict
// client then fails loudly, where a replacement character would make it act on another key. `encoding-type=url` is
// the client's way out.
const named: Readonly<Record<string, string>> = {
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  '"': 'quot',
  '\r': '#13',
};
/** By character code, for those below 64: a page of a listing looks up some 200,000 characters. */
const escapes: readonly (string | undefined)[] = Array.from({ length: 64 }, (_, code) => {
  const name = named[String.fromCharCode(code)] ?? (code < 32 ? `#x${code.toString(16)}` : undefined);
  return name === undefined || code === 9 || code === 10 ? undefined : `&${name};`;
});

export function escapeText(text: string): string {
  let out = '';
  let from = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code > 63 && code < 0xfffe) continue;
    const escaped = code > 63 ? `&#x${code.toString(16)};` : escapes[code];
    if (escaped === undefined) continue;
    out += text.slice(from, i) + escaped;
    from = i + 1;
  }
  return from === 0 ? text : out + text.slice(from);
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what XML cannot have.
const notInXml = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g;

/**
 * A text with the characters that no XML document may have percent-encoded. For errors: a client must be able to read the code, and does
 * not use the name as a key.
 */
export const parseableText = (text: string): string =>
  text.replace(notInXml, (char) =>
    char < ' '
      ? `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
      : encodeURIComponent(char),
  );

/** For values between double quotes, where a parser turns tab and line feed into spaces. */
export const escapeAttribute = (text: string): string =>
  escapeText(text).replace(/[\t\n]/g, (char) => `&#${char.charCodeAt(0)};`);

/** By name: the codes of the references that every document may have. */
const predefined: ReadonlyMap<string, number> = new Map([
  ['amp', 0x26],
  ['lt', 0x3c],
  ['gt', 0x3e],
  ['quot', 0x22],
  ['apos', 0x27],
]);

/** The code point that the reference from `at` up to the semicolon at `end` names. */
function referencedCode(
  text: string,
  { at, end }: { readonly at: number; readonly end: number },
  { controls, refuse }: References,
): number {
  const isNumeric = end > 0 && text.charCodeAt(at + 1) === hash;
  const named = isNumeric || end < 0 ? undefined : predefined.get(text.slice(at + 1, end));
  if (named !== undefined) return named;
  const code = isNumeric ? numberedCode(text, at + 2, end) : -1;
  const whole = (): string => text.slice(at, end < 0 ? at + 41 : Math.min(end + 1, at + 42));
  if (code < 0) throw refuse(`"${whole()}" is not one of the references &amp; &lt; &gt; &quot; &apos; &#…;`);
  const isCharacter =
    code === 9 || code === 10 || code === 13 || (code < 32 ? controls && code > 0 : isPlainCodePoint(code));
  if (!isCharacter) throw refuse(`${whole()} does not name a character that XML can carry`);
  return code;
}

const [hash, smallX] = [0x23, 0x78];

/** The number of `65` or `x41`; -1 for anything else. Without a pattern, because a body may hold a million of them. */
function numberedCode(text: string, from: number, end: number): number {
  const isHex = text.charCodeAt(from) === smallX;
  const first = isHex ? from + 1 : from;
  if (end <= first || end - first > (isHex ? 8 : 10)) return -1;
  let code = 0;
  for (let here = first; here < end; here += 1) {
    const digit = parseDigit(text.charCodeAt(here));
    if (digit < 0 || (digit > 9 && !isHex)) return -1;
    code = code * (isHex ? 16 : 10) + digit;
  }
  return code;
}

function parseDigit(char: number): number {
  if (char >= 0x30 && char <= 0x39) return char - 0x30;
  const letter = char | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

const isPlainCodePoint = (code: number): boolean =>
  code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) && code !== 0xfffe && code !== 0xffff;

export interface References {
  /** Whether references to control characters are allowed, as in XML 1.1. */
  readonly controls: boolean;
  readonly refuse: (problem: string) => Error;
}

// Most references are predefined, and need no replacing to be found valid.
const unusualReference = /&(?!(?:amp|lt|gt|quot|apos);)/;

/** Replaces references by their characters; any other `&` is refused. */
export function resolveReferences(text: string, rules: References): string {
  if (!text.includes('&')) return text;
  // A fast path for the five named ones: a body may consist of a million `&amp;`.
  if (!unusualReference.test(text)) {
    return text
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&apos;', "'")
      .replaceAll('&amp;', '&');
  }
  // Code units in a buffer: to concatenate each character would take seven times as long, and keys may consist of references.
  let out = '';
  let length = 0;
  for (let at = 0; at < text.length; ) {
    if (length > units.length - 2) {
      out += toText(length);
      length = 0;
    }
    const unit = text.charCodeAt(at);
    if (unit !== ampersand) {
      units[length++] = unit;
      at += 1;
      continue;
    }
    const end = semicolonAfter(text, at);
    const code = referencedCode(text, { at, end }, rules);
    if (code > 0xffff) {
      units[length++] = 0xd800 + ((code - 0x10000) >> 10);
      units[length++] = 0xdc00 + ((code - 0x10000) & 0x3ff);
    } else units[length++] = code;
    at = end + 1;
  }
  return out + toText(length);
}

const ampersand = 0x26;
/** Reused: nothing is awaited while it is in use. */
const units = new Uint16Array(4_096);
// Spread would iterate over the buffer, which takes longer than all else.
const toText = (length: number): string =>
  Reflect.apply(String.fromCharCode, undefined, units.subarray(0, length));

/** The semicolon that ends a reference, none of which is longer than 40 characters; -1 where there is none. */
function semicolonAfter(text: string, at: number): number {
  const last = Math.min(text.length - 1, at + 41);
  for (let here = at + 1; here <= last; here += 1) {
    const char = text.charCodeAt(here);
    if (char === 0x3b) return here;
    if (char === 0x26) return -1;
  }
  return -1;
}

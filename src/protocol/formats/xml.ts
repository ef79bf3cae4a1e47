/**
 * The rules of XML 1.0 that reading and writing share: characters, escapes, references, and whether a document is well-formed.
 *
 * The check runs before fast-xml-parser, which accepts mismatched and unclosed elements, unquoted attributes and stray markup. Two
 * parsers that understand one document differently could be used to bypass a check, so this one accepts only a small subset on which
 * every parser agrees: no DOCTYPE, no processing instruction, no reference but the five predefined and the numeric ones.
 */
import { fail, type Refusal } from '../../errors/refusal.ts';

export const s3Namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';
/** Elements inside elements, the root included. The deepest public S3 body has 7. */
export const depthMax = 32;
/** Attributes of one element. The public S3 bodies have 2. */
const attributesMax = 16;

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

const predefined: ReadonlyMap<string, string> = new Map([
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"],
]);

/** The character of the reference from `at` up to the semicolon at `end`. */
function resolveReference(
  text: string,
  { at, end }: { readonly at: number; readonly end: number },
  { controls, refuse }: References,
): string {
  const isNumeric = end > 0 && text.charCodeAt(at + 1) === hash;
  const named = isNumeric || end < 0 ? undefined : predefined.get(text.slice(at + 1, end));
  if (named !== undefined) return named;
  const code = isNumeric ? numberedCode(text, at + 2, end) : -1;
  const whole = (): string => text.slice(at, end < 0 ? at + 41 : Math.min(end + 1, at + 42));
  if (code < 0) throw refuse(`"${whole()}" is not one of the references &amp; &lt; &gt; &quot; &apos; &#…;`);
  const isCharacter =
    code === 9 || code === 10 || code === 13 || (code < 32 ? controls && code > 0 : isPlainCodePoint(code));
  if (!isCharacter) throw refuse(`${whole()} does not name a character that XML can carry`);
  return String.fromCodePoint(code);
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
  let out = '';
  let from = 0;
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', from)) {
    const end = semicolonAfter(text, at);
    out += text.slice(from, at) + resolveReference(text, { at, end }, rules);
    from = end + 1;
  }
  return out + text.slice(from);
}

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

const nameStart =
  'A-Z_a-z\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u02ff\\u0370-\\u037d\\u037f-\\u1fff\\u200c\\u200d\\u2070-\\u218f\\u2c00-\\u2fef\\u3001-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\ufffd';
const plainName = `[${nameStart}][${nameStart}\\-.0-9\\u00b7\\u0300-\\u036f\\u203f-\\u2040]*`;
const qualifiedName = `${plainName}(?::${plainName})?`;
const openTag = new RegExp(`<(${qualifiedName})`, 'y');
const closeTag = new RegExp(`</(${qualifiedName})[ \\t\\r\\n]*>`, 'y');
const attribute = new RegExp(
  `[ \\t\\r\\n]+(${qualifiedName})[ \\t\\r\\n]*=[ \\t\\r\\n]*("[^<"]*"|'[^<']*')`,
  'y',
);
const endOfOpenTag = /[ \t\r\n]*(\/?)>/y;
const declaration =
  /^<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(["'])(1\.[01])\1(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(["'])([A-Za-z0-9._-]+)\3)?(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(["'])(?:yes|no)\5)?[ \t\r\n]*\?>/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const rawControl = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/;

export interface WellFormed {
  /** The number of elements, which the parser must find too. */
  readonly elements: number;
  /** Length of the XML declaration. */
  readonly start: number;
  /** Whether references may name control characters: the document declares XML 1.1. */
  readonly controls: boolean;
}

/** Refuses everything but plain well-formed XML, in one pass without recursion or backtracking. */
export function checkWellFormed(source: string): WellFormed {
  const control = source.search(rawControl);
  if (control >= 0) throw at(source, control, 'a character that XML cannot carry');
  const head = readDeclaration(source);
  const open: string[] = [];
  let elements = 0;
  for (let here = head.start; here < source.length; ) {
    if (source.charCodeAt(here) !== 60) {
      const next = source.indexOf('<', here);
      const end = next < 0 ? source.length : next;
      checkText(source, here, { end, inside: open.length > 0, controls: head.controls });
      here = end;
    } else if (source.startsWith('<!', here)) {
      here = skipMarkup(source, here, open.length > 0);
    } else if (source.startsWith('</', here)) {
      closeTag.lastIndex = here;
      const name = closeTag.exec(source)?.[1];
      const opened = open.pop();
      if (name === undefined || name !== opened) {
        throw at(
          source,
          here,
          `</${opened ?? ''}> was expected${name === undefined ? '' : `, not </${name}>`}`,
        );
      }
      here = closeTag.lastIndex;
    } else {
      if (open.length === 0 && elements > 0) throw at(source, here, 'a second root element');
      elements += 1;
      const tag = readOpenTag(source, here, head.controls);
      if (!tag.isEmpty) open.push(tag.name);
      if (open.length > depthMax) throw at(source, here, `elements nested more than ${depthMax} deep`);
      here = tag.end;
    }
  }
  const unclosed = open.pop();
  if (unclosed !== undefined) throw malformed(`<${unclosed}> is not closed`);
  if (elements === 0) throw malformed('There is no element in the body');
  return { elements, ...head };
}

function readDeclaration(source: string): Omit<WellFormed, 'elements'> {
  if (!/^<\?xml[ \t\r\n]/.test(source)) return { start: 0, controls: false };
  const found = declaration.exec(source);
  if (found === null) throw at(source, 0, 'the XML declaration is not valid');
  if (found[4] !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(found[4])) {
    throw at(source, 0, `the encoding must be UTF-8, not ${found[4]}`);
  }
  return { start: found[0].length, controls: found[2] === '1.1' };
}

function checkText(
  source: string,
  from: number,
  { end, inside, controls }: { end: number; inside: boolean; controls: boolean },
): void {
  const text = source.slice(from, end);
  if (!inside) {
    if (/[^ \t\r\n]/.test(text)) throw at(source, from, 'text outside the root element');
    return;
  }
  // Check each piece separately: `&am<!-- -->p;` must not become a reference when the comment is removed.
  checkReferences(text, { source, from, controls });
  if (text.includes(']]>')) throw at(source, from, ']]> in text must be written ]]&gt;');
}

// Most references are predefined, and need no replacing to be found valid.
const unusualReference = /&(?!(?:amp|lt|gt|quot|apos);)/;
const checkReferences = (
  text: string,
  { source, from, controls }: { source: string; from: number; controls: boolean },
): unknown =>
  unusualReference.test(text) &&
  resolveReferences(text, { controls, refuse: (problem) => at(source, from, problem) });

/** A comment or a CDATA section; every other `<!` declares a document type or an entity. */
function skipMarkup(source: string, here: number, inside: boolean): number {
  if (source.startsWith('<!--', here)) {
    const end = source.indexOf('--', here + 4);
    if (end < 0 || source.charAt(end + 2) !== '>') {
      throw at(source, here, 'a comment that is not closed or has -- in it');
    }
    return end + 3;
  }
  if (inside && source.startsWith('<![CDATA[', here)) {
    const end = source.indexOf(']]>', here);
    if (end < 0) throw at(source, here, 'a CDATA section that is not closed');
    return end + 3;
  }
  throw at(source, here, 'a document type, entity or misplaced declaration, which is refused');
}

function readOpenTag(
  source: string,
  here: number,
  controls: boolean,
): { name: string; end: number; isEmpty: boolean } {
  openTag.lastIndex = here;
  const name = openTag.exec(source)?.[1];
  if (name === undefined) throw at(source, here, 'a tag that is not valid (or a processing instruction)');
  let end = openTag.lastIndex;
  if (source.charCodeAt(end) === 62) return { name, end: end + 1, isEmpty: false };
  const names = new Set<string>();
  for (;;) {
    attribute.lastIndex = end;
    const found = attribute.exec(source);
    if (found === null) break;
    const [, whole = '', value = ''] = found;
    // The parser drops prefixes, so two attributes may not differ in their prefix only.
    const local = whole.startsWith('xmlns:') ? whole : whole.slice(whole.indexOf(':') + 1);
    if (names.has(local)) throw at(source, end, `attribute ${whole} appears more than once`);
    names.add(local);
    if (names.size > attributesMax)
      throw at(source, end, `<${name}> has more than ${attributesMax} attributes`);
    checkReferences(value, { source, from: end, controls });
    end = attribute.lastIndex;
  }
  endOfOpenTag.lastIndex = end;
  const close = endOfOpenTag.exec(source);
  if (close === null) throw at(source, end, `<${name}> is not a valid tag`);
  return { name, end: endOfOpenTag.lastIndex, isEmpty: close[1] === '/' };
}

function at(source: string, offset: number, problem: string): Refusal {
  const before = source.slice(0, offset);
  const line = before.split('\n').length;
  return malformed(`Line ${line}, column ${offset - before.lastIndexOf('\n')}: ${problem}`);
}

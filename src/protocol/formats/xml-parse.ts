/**
 * Bytes to a small tree of elements, in one pass without recursion or backtracking, so that a body costs time that is linear in its length.
 *
 * Two parsers that understand one document differently could be used to bypass a check. So this one accepts only a small subset on which
 * every parser agrees: no DOCTYPE, no processing instruction, no reference but the five predefined and the numeric ones.
 */

import { fail, type Refusal } from '../../base/errors.ts';
import { decodeDocument } from '../../base/text/utf8.ts';

export const malformed = (message: string, cause?: unknown): Refusal =>
  fail('MalformedXML', cause === undefined ? { message } : { message, cause });

export interface Node {
  /** Without its namespace prefix, because clients send various prefixes. */
  readonly name: string;
  /** All text and CDATA directly inside, whitespace kept. */
  readonly text: string;
  readonly children: readonly Node[];
  readonly parent: Node | undefined;
  /** By local name; `xsi:type` is `type`. Namespace declarations are not kept. */
  readonly attributes: ReadonlyMap<string, string>;
}

type Building = { -readonly [K in keyof Node]: Node[K] } & { children: Building[] };
const noAttributes: ReadonlyMap<string, string> = new Map();

/** Elements inside elements, the root included. The deepest public S3 body has 7. */
const depthMax = 32;
/** Attributes of one element. The public S3 bodies have 2. */
const attributesMax = 16;

/** Each limit is checked while the document is parsed, and not afterwards: an element of 4 bytes takes some 200 bytes of memory. */
export interface XmlLimits {
  /** A longer body is refused before it is decoded. */
  readonly maxBytes: number;
  /** Of elements, and again of comments and CDATA sections together: one for each element is plenty. */
  readonly elementsMax?: number;
  /** Characters directly inside one element. A longer text is refused as soon as it is read. */
  readonly textMax?: number;
}
const elementsMaxDefault = 10_000;
/** Above every text of a public S3 body: keys have 1,024 bytes, ARNs and redirects 2,048. */
const textMaxDefault = 16_384;

export function parseXml(bytes: Uint8Array, { maxBytes, ...limits }: XmlLimits): Node {
  if (bytes.length > maxBytes) {
    throw malformed(`The body has ${bytes.length} bytes; at most ${maxBytes} are accepted here`);
  }
  return parseText(decodeBody(bytes), limits);
}

const lessThan = 0x3c;

function decodeBody(bytes: Uint8Array): string {
  const [first, second] = bytes;
  const isWide = first === 0 || second === 0 || (first === 0xff && second === 0xfe);
  if (isWide || (first === 0xfe && second === 0xff)) {
    throw malformed('The body must be UTF-8; it looks like UTF-16 or UTF-32');
  }
  try {
    return decodeDocument(bytes);
  } catch (cause) {
    throw malformed('The body is not valid UTF-8', cause);
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const rawControl = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/;

/** The tree of a document. @throws MalformedXML with line and column */
export function parseText(
  input: string,
  { elementsMax = elementsMaxDefault, textMax = textMaxDefault }: Omit<XmlLimits, 'maxBytes'> = {},
): Node {
  // As every parser reads line ends.
  const source = input.includes('\r') ? input.replace(/\r\n?/g, '\n') : input;
  const control = source.search(rawControl);
  if (control >= 0) throw at(source, control, 'a character that XML cannot carry');
  const { start, controls } = readDeclaration(source);
  const reading: Reading = { source, controls, textMax };
  let root: Building | undefined;
  let open: { readonly node: Building; readonly tag: string; readonly outer: typeof open } | undefined;
  let depth = 0;
  let elements = 0;
  let sections = 0;
  for (let here = start; here < source.length; ) {
    if (source.charCodeAt(here) !== lessThan) {
      const next = source.indexOf('<', here);
      const end = next < 0 ? source.length : next;
      readText(reading, open?.node, { here, end });
      here = end;
    } else if (source.startsWith('<!', here)) {
      sections += 1;
      if (sections > elementsMax) throw tooManyElements(elementsMax);
      here = readSection(reading, open?.node, here);
    } else if (source.startsWith('</', here)) {
      closeTag.lastIndex = here;
      const name = closeTag.exec(source)?.[1];
      if (name === undefined || name !== open?.tag) {
        const other = name === undefined ? '' : `, not </${name}>`;
        throw at(source, here, `</${open?.tag ?? ''}> was expected${other}`);
      }
      open = open.outer;
      depth -= 1;
      here = closeTag.lastIndex;
    } else {
      if (open === undefined && root !== undefined) throw at(source, here, 'a second root element');
      elements += 1;
      if (elements > elementsMax) throw tooManyElements(elementsMax);
      const tag = readOpenTag(reading, here);
      const node: Building = {
        name: tag.name.slice(tag.name.indexOf(':') + 1),
        text: '',
        children: [],
        parent: open?.node,
        attributes: tag.attributes,
      };
      root ??= node;
      open?.node.children.push(node);
      if (!tag.isEmpty) {
        open = { node, tag: tag.name, outer: open };
        depth += 1;
        if (depth > depthMax) throw at(source, here, `elements nested more than ${depthMax} deep`);
      }
      here = tag.end;
    }
  }
  if (open !== undefined) throw malformed(`<${open.tag}> is not closed`);
  if (root === undefined) throw malformed('There is no element in the body');
  return root;
}

const tooManyElements = (max: number): Refusal =>
  malformed(`The body has more than ${max} elements, which is the most accepted here`);

interface Reading {
  readonly source: string;
  /** Whether references may name control characters: the document declares XML 1.1. */
  readonly controls: boolean;
  readonly textMax: number;
}

const declaration =
  /^<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(["'])(1\.[01])\1(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(["'])([A-Za-z0-9._-]+)\3)?(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(["'])(?:yes|no)\5)?[ \t\r\n]*\?>/;

function readDeclaration(source: string): { readonly start: number; readonly controls: boolean } {
  if (!/^<\?xml[ \t\r\n]/.test(source)) return { start: 0, controls: false };
  const found = declaration.exec(source);
  if (found === null) throw at(source, 0, 'the XML declaration is not valid');
  if (found[4] !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(found[4])) {
    throw at(source, 0, `the encoding must be UTF-8, not ${found[4]}`);
  }
  return { start: found[0].length, controls: found[2] === '1.1' };
}

function readText(
  reading: Reading,
  node: Building | undefined,
  { here, end }: { readonly here: number; readonly end: number },
): void {
  const { source, textMax } = reading;
  // The longest reference, such as `&#x0010FFFF;`, has twelve characters: nothing is resolved that would be too long in any case.
  if (node !== undefined && end - here > textMax * 12) throw tooLong(node, textMax);
  const text = source.slice(here, end);
  if (node === undefined) {
    if (/[^ \t\r\n]/.test(text)) throw at(source, here, 'text outside the root element');
    return;
  }
  if (text.includes(']]>')) throw at(source, here, ']]> in text must be written ]]&gt;');
  // Line feeds and indentation between the children of an element.
  if (node.children.length > 0 && !/[^ \t\n]/.test(text)) return;
  // Each piece by itself: `&am<!-- -->p;` must not become a reference when the comment is removed.
  addText(reading, node, resolveReferences(text, referencesAt(reading, here)));
}

function addText({ textMax }: Reading, node: Building, text: string): void {
  if (node.text.length + text.length > textMax) throw tooLong(node, textMax);
  node.text += text;
}

const tooLong = (node: Node, textMax: number): Refusal =>
  malformed(`${formatPath(node)} must have at most ${textMax} characters`);

const referencesAt = ({ source, controls }: Reading, from: number): References => ({
  controls,
  refuse: (problem) => at(source, from, problem),
});

/** A comment or a CDATA section; every other `<!` declares a document type or an entity. */
function readSection(reading: Reading, node: Building | undefined, here: number): number {
  const { source } = reading;
  if (source.startsWith('<!--', here)) {
    const end = source.indexOf('--', here + 4);
    if (end < 0 || source.charAt(end + 2) !== '>') {
      throw at(source, here, 'a comment that is not closed or has -- in it');
    }
    return end + 3;
  }
  if (node !== undefined && source.startsWith('<![CDATA[', here)) {
    const end = source.indexOf(']]>', here);
    if (end < 0) throw at(source, here, 'a CDATA section that is not closed');
    addText(reading, node, source.slice(here + '<![CDATA['.length, end));
    return end + 3;
  }
  throw at(source, here, 'a document type, entity or misplaced declaration, which is refused');
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
interface OpenTag {
  /** With its prefix. */
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly end: number;
  readonly isEmpty: boolean;
}

function readOpenTag(reading: Reading, here: number): OpenTag {
  const { source } = reading;
  openTag.lastIndex = here;
  const name = openTag.exec(source)?.[1];
  if (name === undefined) throw at(source, here, 'a tag that is not valid (or a processing instruction)');
  let end = openTag.lastIndex;
  if (source.charCodeAt(end) === 62) return { name, attributes: noAttributes, end: end + 1, isEmpty: false };
  const names = new Set<string>();
  const attributes = new Map<string, string>();
  for (;;) {
    attribute.lastIndex = end;
    const found = attribute.exec(source);
    if (found === null) break;
    const [, whole = '', value = ''] = found;
    // Prefixes are dropped, so two attributes may not differ in their prefix only.
    const local = whole.startsWith('xmlns:') ? whole : whole.slice(whole.indexOf(':') + 1);
    if (names.has(local)) throw at(source, end, `attribute ${whole} appears more than once`);
    names.add(local);
    if (names.size > attributesMax)
      throw at(source, end, `<${name}> has more than ${attributesMax} attributes`);
    const text = resolveReferences(value.slice(1, -1), referencesAt(reading, end));
    if (local !== 'xmlns' && !local.startsWith('xmlns:')) attributes.set(local, text);
    end = attribute.lastIndex;
  }
  endOfOpenTag.lastIndex = end;
  const close = endOfOpenTag.exec(source);
  if (close === null) throw at(source, end, `<${name}> is not a valid tag`);
  return { name, attributes, end: endOfOpenTag.lastIndex, isEmpty: close[1] === '/' };
}

function at(source: string, offset: number, problem: string): Refusal {
  const before = source.slice(0, offset);
  const line = before.split('\n').length;
  return malformed(`Line ${line}, column ${offset - before.lastIndexOf('\n')}: ${problem}`);
}

/** The path of an element, such as `Delete/Object[3]/Key`, counted from 1 as in XPath. */
export function formatPath(node: Node): string {
  if (node.parent === undefined) return node.name;
  const twins = node.parent.children.filter((each) => each.name === node.name);
  const position = twins.length > 1 ? `[${twins.indexOf(node) + 1}]` : '';
  return `${formatPath(node.parent)}/${node.name}${position}`;
}

// References, such as `&amp;` and `&#65;`.

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

interface References {
  /** Whether references to control characters are allowed, as in XML 1.1. */
  readonly controls: boolean;
  readonly refuse: (problem: string) => Error;
}

// Most references are predefined, and need no replacing to be found valid.
const unusualReference = /&(?!(?:amp|lt|gt|quot|apos);)/;

/** Replaces references by their characters; any other `&` is refused. */
function resolveReferences(text: string, rules: References): string {
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

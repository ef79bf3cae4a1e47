/** Bytes to a small tree of elements; the one import of fast-xml-parser. */
import { XMLParser } from 'fast-xml-parser';
import { Refusal } from '../../errors/refusal.ts';
import { checkWellFormed, malformed, type References, resolveReferences } from './xml.ts';

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

const parser = new XMLParser({
  preserveOrder: true,
  parseTagValue: false,
  trimValues: false,
  removeNSPrefix: true,
  ignoreAttributes: false,
  attributeNamePrefix: '',
  cdataPropName: '#cdata',
  // References are resolved here, separately for text and CDATA: the parser's own decoder keeps unknown references.
  processEntities: false,
  ignoreDeclaration: true,
  jPath: false,
  // `toString` and the like are names as good as any other: nothing below uses a name as a property.
  onDangerousProperty: (name: string) => name,
});

/** The parser's shape: one property for the name with the list of what is inside, and `:@` for the attributes. */
type Raw = Readonly<Record<string, unknown>>;
const noAttributes: ReadonlyMap<string, string> = new Map();
type Building = { -readonly [K in keyof Node]: Node[K] };

/** Refused before a byte of it is parsed: an element takes 4 bytes to send and 200 to keep. */
export interface XmlLimits {
  readonly maxBytes: number;
  readonly elementsMax?: number;
}
const elementsMaxDefault = 10_000;

export function parseXml(bytes: Uint8Array, limits: XmlLimits): Node {
  const { maxBytes, elementsMax = elementsMaxDefault } = limits;
  if (bytes.length > maxBytes) {
    throw malformed(`The body has ${bytes.length} bytes; at most ${maxBytes} are accepted here`);
  }
  if (hasMoreElements(bytes, elementsMax)) {
    throw malformed(`The body has more than ${elementsMax} elements, which is the most accepted here`);
  }
  const source = decodeUtf8(bytes);
  const { elements, start, controls } = checkWellFormed(source);
  const context = { references: { controls, refuse: malformed }, elements: 0 };
  let root: Node | undefined;
  for (const raw of parse(source.slice(start))) {
    if ('#text' in raw) continue;
    root = toNode(raw, undefined, context);
  }
  // Never observed. It would mean that the check and the parser read two different documents.
  if (root === undefined || context.elements !== elements)
    throw malformed('The body could not be understood');
  return root;
}

const lessThan = 0x3c;
const [slash, question, exclamation] = [0x2f, 0x3f, 0x21];

/** Counts opening tags, and apart from them comments and CDATA sections: one for each element is plenty. */
function hasMoreElements(bytes: Uint8Array, max: number): boolean {
  let elements = 0;
  let sections = 0;
  for (let at = bytes.indexOf(lessThan); at >= 0; at = bytes.indexOf(lessThan, at + 1)) {
    const next = bytes[at + 1];
    if (next === exclamation) sections += 1;
    else if (next !== slash && next !== question) elements += 1;
    if (elements > max || sections > max) return true;
  }
  return false;
}

function decodeUtf8(bytes: Uint8Array): string {
  const [first, second] = bytes;
  const isWide = first === 0 || second === 0 || (first === 0xff && second === 0xfe);
  if (isWide || (first === 0xfe && second === 0xff)) {
    throw malformed('The body must be UTF-8; it looks like UTF-16 or UTF-32');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw malformed('The body is not valid UTF-8', cause);
  }
}

function parse(source: string): Raw[] {
  try {
    return parser.parse(source) as Raw[];
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    // `constructor`, `prototype` and `__proto__` as element names end here; no S3 element has such a name.
    throw malformed('The body holds an element or attribute that no S3 document has', cause);
  }
}

/** Recursion is safe: the check bounds the depth. */
function toNode(
  raw: Raw,
  parent: Node | undefined,
  context: { readonly references: References; elements: number },
): Node {
  context.elements += 1;
  let name = '';
  let attributes = noAttributes;
  for (const key of Object.keys(raw)) {
    if (key === ':@') attributes = readAttributes(raw[key] as Raw, context.references);
    else name = key;
  }
  const children: Node[] = [];
  const node: Building = { name, text: '', children, parent, attributes };
  for (const part of raw[name] as Raw[]) {
    const text = part['#text'];
    const cdata = part['#cdata'];
    if (typeof text === 'string') node.text += resolveReferences(text, context.references);
    else if (cdata !== undefined) for (const each of cdata as Raw[]) node.text += each['#text'] as string;
    else children.push(toNode(part, node, context));
  }
  return node;
}

const readAttributes = (raw: Raw, references: References): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(raw)
      .filter(([name]) => name !== 'xmlns')
      .map(([name, value]) => [name, resolveReferences(String(value), references)]),
  );

/** The path of an element, such as `Delete/Object[3]/Key`, counted from 1 as in XPath. */
export function formatPath(node: Node): string {
  if (node.parent === undefined) return node.name;
  const twins = node.parent.children.filter((each) => each.name === node.name);
  const position = twins.length > 1 ? `[${twins.indexOf(node) + 1}]` : '';
  return `${formatPath(node.parent)}/${node.name}${position}`;
}

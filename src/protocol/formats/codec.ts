/**
 * One schema reads (validates) and writes (orders, escapes) an XML body, reads its JSON form, and infers its type. The JSON form is the
 * value itself: attributes and elements are fields, repeated elements a list.
 *
 * Names are bound once, when a schema is declared: `reader` and `writer` return plain functions, so that a page of a thousand keys costs
 * the copying of its characters only.
 */

import { fail } from '../../base/errors.ts';
import { trim as trimSet } from '../../base/text/printable.ts';
import {
  checkedShape,
  type JsonSchema,
  type JsonShape,
  type LeafSchema,
  leafShape,
  listShape,
  objectShape,
  optionalShape,
} from './json-shape.ts';
import { formatPath, malformed, type Node, parseXml, type XmlLimits } from './xml-parse.ts';

export const s3Namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';

/** Elements (or the attribute) found under one name; `parent` says where, when something is missing. */
type Reader<T> = (found: readonly Node[], parent: Node | undefined) => T;
// Taken from a method, whose parameters are bivariant: `Xml<Tagging>` stays assignable to `Xml<unknown>`.
type Writer<T> = { bivariant(value: T, out: XmlBuffer): void }['bivariant'];

export interface Xml<T> {
  reader(name: string): Reader<T>;
  /** @param attributes inserted after the name in the opening tag, with its leading space */
  writer(name: string, attributes?: string): Writer<T>;
  /** The property may be absent: see `optional`. */
  readonly isOptional?: boolean;
  /** Element names that the field reads, when it is not its own; '*' is what no other field reads. */
  readonly claims?: readonly string[] | '*';
  /** Local name of the attribute that the field reads and writes instead of an element. */
  readonly attribute?: string;
  /**
   * Absent where the value has no JSON form. A function, because only the operator API asks: building the shapes of all
   * schemas was a tenth of a start.
   */
  readonly json?: (() => JsonShape<T>) | undefined;
}

/** The JSON form of a schema that has one. */
export function requireJson<T>({ json }: Xml<T>): JsonShape<T> {
  if (json === undefined) throw new TypeError('the schema has no JSON form');
  return json();
}

/** The JSON form that is made of that of the inner schema, where there is one. */
const shapedFrom = <T, U>(
  { json }: Xml<T>,
  shape: (inner: JsonShape<T>) => JsonShape<U>,
): (() => JsonShape<U>) | undefined => json && (() => shape(json()));

export type Infer<S> = S extends Xml<infer T> ? T : never;
export type Optional<T> = Xml<T | undefined> & { readonly isOptional: true };
type Fields = Readonly<Record<string, Xml<unknown>>>;
type Flat<T> = { readonly [K in keyof T]: T[K] };
type OptionalNames<F extends Fields> = {
  [K in keyof F]: F[K] extends { readonly isOptional: true } ? K : never;
}[keyof F];
type ElementOf<F extends Fields> = Flat<
  { [K in Exclude<keyof F, OptionalNames<F>>]: Infer<F[K]> } & {
    [K in OptionalNames<F>]?: Exclude<Infer<F[K]>, undefined>;
  }
>;

const describePlace = (parent: Node | undefined, name: string): string =>
  parent === undefined ? name : `${formatPath(parent)}/${name}`;
const blank = /^[ \t\r\n]*$/;
const trim = (text: string): string => trimSet(text, ' \t\r\n');
const quoted = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);

function only(found: readonly Node[], parent: Node | undefined, name: string): Node {
  const [node] = found;
  if (node === undefined) throw malformed(`${describePlace(parent, name)} is required`);
  if (found.length > 1) throw malformed(`${describePlace(parent, name)} appears more than once`);
  return node;
}

/** A leaf: what the text means, and how the value is written. `refuse` takes what would be right: `must be true or false`. */
const leaf = <T>(
  read: (text: string, refuse: (right: string, quotedText?: string) => Error) => T,
  write: (value: T, out: XmlBuffer) => void,
  schema: LeafSchema = { type: 'string' },
): Xml<T> => ({
  json: () => leafShape(schema, read),
  reader: (name) => (found, parent) => {
    const node = only(found, parent, name);
    if (node.children.length > 0) throw malformed(`${formatPath(node)} must hold text, not elements`);
    return read(node.text, (right, quotedText = quoted(trim(node.text))) =>
      malformed(`${formatPath(node)} ${right}, not ${quotedText}`),
    );
  },
  writer: (name, attributes = '') => {
    const open = `<${name}${attributes}>`;
    const close = `</${name}>`;
    return (value, out) => {
      out.write(open);
      write(value, out);
      out.write(close);
    };
  },
});

function writeEscaped(value: string, out: XmlBuffer): void {
  out.escape(value);
}
/** For values that need no escapes. */
function writePlain(value: string | number | boolean, out: XmlBuffer): void {
  out.write(String(value));
}

/** Any text; whitespace means itself, as in a key. */
export const text: Xml<string> = leaf((found) => found, writeEscaped);
/** Text without its surrounding whitespace: identifiers, ETags, regions. */
export const token: Xml<string> = leaf(trim, writeEscaped);
/** An entity tag, which the value has without its quotes. */
export const entityTag: Xml<string> = leaf(
  (found) => trim(found).replace(/^"(.*)"$/, '$1'),
  (tag, out) => {
    out.write('&quot;');
    out.escape(tag);
    out.write('&quot;');
  },
);

export const int = ({
  min = Number.MIN_SAFE_INTEGER,
  max = Number.MAX_SAFE_INTEGER,
}: {
  readonly min?: number;
  readonly max?: number;
} = {}): Xml<number> =>
  leaf(
    (found, refuse) => {
      const digits = trim(found);
      const value = /^[+-]?[0-9]{1,20}$/.test(digits) ? Number(digits) : Number.NaN;
      if (!Number.isSafeInteger(value)) throw refuse('must be a whole number');
      if (value < min || value > max) throw refuse(`must be from ${min} to ${max}`, digits);
      return value === 0 ? 0 : value;
    },
    writePlain,
    { type: 'integer', minimum: min, maximum: max },
  );

/** In any case: the public reference itself writes `TRUE`. */
export const bool: Xml<boolean> = leaf(
  (found, refuse) => {
    const word = trim(found).toLowerCase();
    if (word === 'true' || word === '1') return true;
    if (word === 'false' || word === '0') return false;
    throw refuse('must be true or false');
  },
  writePlain,
  { type: 'boolean' },
);

const isoDate =
  /^(\d{4}-(?:0[1-9]|1[0-2])-(\d{2}))(?:T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-][01]\d:[0-5]\d))?$/;
const httpDate =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d{2}) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d GMT$/;

/**
 * A time as `2026-11-05T10:00:00.000Z`; the writer expects it preformatted. SDKs send ISO 8601, and the HTTP form in DeleteObjects.
 */
export const date: Xml<string> = leaf((found, refuse) => {
  const written = trim(found);
  const iso = isoDate.exec(written);
  const day = iso === null ? httpDate.exec(written)?.[1] : iso[2];
  // `Date` moves 31 February into March; its day then differs from the one written.
  const calendar = iso === null ? written : `${iso[1]}T00:00:00Z`;
  if (day === undefined || new Date(calendar).getUTCDate() !== Number(day)) {
    throw refuse('must be a date such as 2026-11-05T10:00:00.000Z');
  }
  return new Date(written).toISOString();
}, writePlain);

export const oneOf = <const T extends readonly string[]>(...choices: T): Xml<T[number]> =>
  leaf(
    (found, refuse) => {
      const word = trim(found);
      const choice = choices.find((each) => each === word);
      if (choice === undefined) throw refuse(`must be one of ${choices.join(', ')}`);
      return choice;
    },
    writePlain,
    { type: 'string', enum: choices },
  );

/** An absent element leaves no property; the writer leaves out undefined. */
export const optional = <T>(inner: Xml<T>): Optional<T> => ({
  ...inner,
  isOptional: true,
  json: shapedFrom(inner, optionalShape),
  reader: (name) => {
    const read = inner.reader(name);
    return (found, parent) => (found.length === 0 ? undefined : read(found, parent));
  },
  writer: (name, attributes) => {
    const write = inner.writer(name, attributes);
    return (value, out) => {
      if (value !== undefined) write(value, out);
    };
  },
});

/**
 * Adds a check beyond the shape of a value.
 * @param problem describes the fault, in words that follow the place of the value: `must hold one of Days and Date`
 */
export const checked = <T>(inner: Xml<T>, problem: (value: T) => string | undefined): Xml<T> => ({
  ...inner,
  json: shapedFrom(inner, (shape) => checkedShape(shape, problem)),
  reader: (name) => {
    const read = inner.reader(name);
    return (found, parent) => {
      const value = read(found, parent);
      const wrong = problem(value);
      if (wrong !== undefined) throw malformed(`${describePlace(parent, name)} ${wrong}`);
      return value;
    };
  },
});

/**
 * Adds to the published schema limits that a handler checks, because their refusals have errors of their own.
 * @param limits of the value itself; of an optional one or a list, put it inside
 */
export const documented = <T>(inner: Xml<T>, limits: DocumentedLimits): Xml<T> => ({
  ...inner,
  json: shapedFrom(inner, (shape) => ({ ...shape, schema: { ...shape.schema, ...limits } })),
});
type DocumentedLimits = Pick<JsonSchema, 'minimum' | 'maximum' | 'maxLength' | 'minItems' | 'maxItems'>;

/** An element that holds one of these at most, which are all optional. */
export const atMostOne = <F extends Readonly<Record<string, Optional<unknown>>>>(
  fields: F,
  options?: ElementOptions,
): Xml<ElementOf<F>> =>
  checked(element(fields, options), (value) =>
    Object.values(value).filter((each) => each !== undefined).length > 1
      ? `may hold only one of ${Object.keys(fields).join(', ')}`
      : undefined,
  );

export interface Bounds {
  readonly max: number;
  readonly min?: number;
}

/** For a list whose handler checks the limit, with an error of its own; the bound of `XmlLimits` still holds. */
export const limitedByHandler: Bounds = { max: Number.MAX_SAFE_INTEGER };

function checkBounds(count: number, { max, min = 0 }: Bounds, place: () => string): void {
  if (count > max) throw malformed(`${place()} appears ${count} times; at most ${max} are accepted`);
  if (count < min) {
    throw malformed(`${place()} ${min === 1 ? 'is required' : `must appear at least ${min} times`}`);
  }
}

/**
 * Repeated elements as a list; none is the empty list. With `name` the field is a wrapper around them:
 * `TagSet: many(tag, { name: 'Tag', max: 50 })` is `<TagSet><Tag>…</Tag>…</TagSet>`.
 */
export function many<T>(
  inner: Xml<T>,
  { name: itemName, ...bounds }: Bounds & { readonly name?: string },
): Xml<readonly T[]> {
  if (itemName !== undefined) return wrapped(itemName, many(inner, bounds));
  return {
    json: shapedFrom(inner, (shape) => listShape(shape, bounds)),
    reader: (name) => {
      const read = inner.reader(name);
      return (found, parent) => {
        checkBounds(found.length, bounds, () => describePlace(parent, name));
        return found.map((node) => read([node], parent));
      };
    },
    writer: (name) => {
      const write = inner.writer(name);
      return (values, out) => {
        for (const value of values) write(value, out);
      };
    },
  };
}

function wrapped<T>(itemName: string, list: Xml<readonly T[]>): Xml<readonly T[]> {
  const outer = element({ [itemName]: list });
  return {
    json: list.json,
    reader: (name) => {
      const read = outer.reader(name);
      return (found, parent) => read(found, parent)[itemName] as readonly T[];
    },
    writer: (name, attributes) => {
      const write = outer.writer(name, attributes);
      return (values, out) => write({ [itemName]: values }, out);
    },
  };
}

type ChoiceOf<C extends Fields> = {
  [K in keyof C]: { readonly [P in K]: Infer<C[K]> };
}[keyof C];

/** Elements of several names in one order: `[{ Version: … }, { DeleteMarker: … }]`. The field's own name is not sent. */
export function choice<C extends Fields>(choices: C, bounds: Bounds): Xml<readonly ChoiceOf<C>[]> {
  const names = Object.keys(choices);
  const readers = new Map(names.map((name) => [name, (choices[name] as Xml<unknown>).reader(name)]));
  const writers = names.map((name) => [name, (choices[name] as Xml<unknown>).writer(name)] as const);
  return {
    claims: names,
    reader: () => (found, parent) => {
      checkBounds(found.length, bounds, () => describePlace(parent, names.join(' or ')));
      // The cast: a reader of each name was made from the choice of that name.
      return found.map((node) => ({
        [node.name]: readers.get(node.name)?.([node], parent),
      })) as ChoiceOf<C>[];
    },
    writer: () => (values, out) => {
      for (const value of values as readonly Readonly<Record<string, unknown>>[]) {
        for (const [name, write] of writers) if (name in value) write(value[name], out);
      }
    },
  };
}

/** An attribute; the writer adds ` name="value"`, with ` xmlns:xsi="…"` before an `xsi:` name. */
export function attribute<T extends string>(
  name: string,
  inner: Xml<T>,
): Xml<T> & { readonly attribute: string } {
  const declared = name.startsWith('xsi:') ? ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"' : '';
  return {
    json: inner.json,
    attribute: name.slice(name.indexOf(':') + 1),
    reader: () => inner.reader(`@${name}`),
    writer: () => (value, out) => out.write(`${declared} ${name}="${escapeAttribute(value)}"`),
  };
}

/** All elements that no other field reads, as text by name. The result has a null prototype, so any name is harmless. */
export const rest: Xml<Readonly<Record<string, string | number>>> = {
  claims: '*',
  reader: () => (found, parent) => {
    const values: Record<string, string> = Object.create(null) as Record<string, string>;
    for (const node of found) {
      if (node.name in values) throw malformed(`${describePlace(parent, node.name)} appears more than once`);
      values[node.name] = text.reader(node.name)([node], parent);
    }
    return values;
  },
  writer: () => (values, out) => {
    for (const [name, value] of Object.entries(values))
      out.write(`<${name}>${escapeText(String(value))}</${name}>`);
  },
};

interface Field {
  readonly key: string;
  readonly read: Reader<unknown>;
  readonly write: Writer<unknown>;
  readonly attribute: string | undefined;
}

export interface ElementOptions {
  /**
   * What to do with unknown elements. 'refuse' (the default) where dropping one would change the meaning of the request; 'ignore' where
   * real clients send additional ones.
   */
  readonly unknown?: 'refuse' | 'ignore';
  /** Elements of the public API that are not implemented: a client that sends one has made no mistake, so the refusal says so. */
  readonly leftOut?: readonly string[];
}

const none: readonly Node[] = [];

/** Named elements: written in the order of the fields, read in any order. */
export function element<F extends Fields>(
  fields: F,
  { unknown = 'refuse', leftOut = [] }: ElementOptions = {},
): Xml<ElementOf<F>> {
  const list: Field[] = Object.entries(fields).map(([key, field]) => ({
    key,
    read: field.reader(key),
    write: field.writer(key),
    attribute: field.attribute,
  }));
  const attributes = list.filter((field) => field.attribute !== undefined);
  const children = list.filter((field) => field.attribute === undefined);
  const slots = numberFields(fields);
  const readFields = (node: Node): ElementOf<F> => {
    if (!blank.test(node.text)) throw malformed(`${formatPath(node)} must hold elements, not text`);
    const found: (Node[] | undefined)[] = [];
    for (const child of node.children) {
      const slot = slots.get(child.name) ?? slots.get('*');
      if (slot === undefined) {
        if (leftOut.includes(child.name))
          throw fail('NotImplemented', `${formatPath(child)} is not implemented.`);
        if (unknown === 'ignore') continue;
        throw malformed(`${formatPath(child)} is not known here`);
      }
      const others = found[slot];
      if (others === undefined) found[slot] = [child];
      else others.push(child);
    }
    const value: Record<string, unknown> = {};
    list.forEach(({ key, read, attribute: name }, slot) => {
      const nodes = name === undefined ? found[slot] : attributeNodes(node, name);
      const part = read(nodes ?? none, node);
      if (part !== undefined) value[key] = part;
    });
    // The cast: each key was read by the field of that name.
    return value as ElementOf<F>;
  };
  return {
    json: deriveShape(fields, unknown === 'ignore'),
    reader: (name) => (found, parent) => readFields(only(found, parent, name)),
    writer: (name, extra = '') => {
      const open = `<${name}${extra}`;
      const close = `</${name}>`;
      return (value, out) => {
        const record = value as Readonly<Record<string, unknown>>;
        out.write(open);
        for (const { key, write } of attributes) write(record[key], out);
        out.write('>');
        for (const { key, write } of children) write(record[key], out);
        out.write(close);
      };
    },
  };
}

/** Undefined where a field has no JSON form. */
function deriveShape<F extends Fields>(
  fields: F,
  isOpen: boolean,
): (() => JsonShape<ElementOf<F>>) | undefined {
  const all = Object.entries(fields);
  if (all.some(([, { json }]) => json === undefined)) return undefined;
  return () =>
    objectShape(Object.fromEntries(all.map(([name, field]) => [name, requireJson(field)])), { isOpen });
}

/** Element name to the position of the field that reads it. */
function numberFields(fields: Fields): ReadonlyMap<string, number> {
  const slots = new Map<string, number>();
  Object.entries(fields).forEach(([key, field], slot) => {
    if (field.attribute !== undefined) return;
    for (const name of field.claims ?? [key]) slots.set(name, slot);
  });
  return slots;
}

function attributeNodes(node: Node, name: string): readonly Node[] {
  const value = node.attributes.get(name);
  if (value === undefined) return none;
  return [{ name: `@${name}`, text: value, children: none, parent: node, attributes: node.attributes }];
}

/**
 * Reads a body whose root must be `rootName`, in any namespace.
 * @throws MissingRequestBodyError for an empty body; MalformedXML for every other fault
 */
export function readXml<T>(schema: Xml<T>, rootName: string, bytes: Uint8Array, limits: XmlLimits): T {
  if (bytes.length === 0) throw fail('MissingRequestBodyError');
  const root = parseXml(bytes, limits);
  if (root.name !== rootName) throw malformed(`The root element must be ${rootName}, not ${root.name}`);
  return schema.reader(rootName)([root], undefined);
}

interface WriteOptions {
  /** Of the root; '' for none, as error bodies have it. */
  readonly namespace?: string;
}

/** @returns the document in UTF-8 */
export function encodeXml<T>(
  schema: Xml<T>,
  rootName: string,
  value: T,
  { namespace = s3Namespace }: WriteOptions = {},
): Uint8Array {
  const attributes = namespace === '' ? '' : ` xmlns="${namespace}"`;
  return buffer.fill((out) => {
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n');
    schema.writer(rootName, attributes)(value, out);
  });
}

/** The same as a string, for what is short. */
export const writeXml = <T>(...document: Parameters<typeof encodeXml<T>>): string =>
  decoder.decode(encodeXml(...document));

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const bufferBytes = 64 * 1024;

/**
 * UTF-8 in one array, which is used again: a page of a hundred keys as concatenated strings took 80 KB of heap, a third of what its request
 * allocated.
 */
class XmlBuffer {
  #bytes = new Uint8Array(bufferBytes);
  #length = 0;

  /** @returns a copy of what `write` has written */
  fill(write: (out: XmlBuffer) => void): Uint8Array {
    this.#length = 0;
    write(this);
    const written = this.#bytes.slice(0, this.#length);
    if (this.#bytes.length > bufferBytes) this.#bytes = new Uint8Array(bufferBytes);
    return written;
  }

  write(text: string): void {
    const bytes = this.#reserve(text);
    let at = this.#length;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code > 127) {
        this.#length = at + encoder.encodeInto(text.slice(i), bytes.subarray(at)).written;
        return;
      }
      bytes[at] = code;
      at += 1;
    }
    this.#length = at;
  }

  /** The same with characters escaped that a text of an element cannot have. */
  escape(text: string): void {
    const bytes = this.#reserve(text);
    let at = this.#length;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code > 127 || (code < 64 && escapes[code] !== undefined)) {
        this.#length = at;
        this.write(escapeText(text.slice(i)));
        return;
      }
      bytes[at] = code;
      at += 1;
    }
    this.#length = at;
  }

  /** A character of a string takes three bytes at most. */
  #reserve(text: string): Uint8Array {
    const needed = this.#length + text.length * 3;
    if (needed > this.#bytes.length) {
      const longer = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
      longer.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = longer;
    }
    return this.#bytes;
  }
}

// One for all, because no document is written while another one is.
const buffer = new XmlBuffer();

// Texts in XML 1.0.

/**
 * Characters with a reference of their own. A parser reads a bare carriage return back as a line feed; line feed and
 * tab stay in an element's text. XML 1.0 cannot carry most control characters. They are written as references, as the
 * public service does: a strict client then fails, where a replacement character would make it act on another key.
 * Clients avoid both by `encoding-type=url`.
 */
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

/**
 * The key as a reply to a client that has sent it shows it: left out if XML cannot have it, so that a strict parser can read the rest.
 * The public service writes a reference there, at which these parsers fail.
 */
export const xmlKey = (key: string): { Key?: string } => (parseableText(key) === key ? { Key: key } : {});

/** For values between double quotes, where a parser turns tab and line feed into spaces. */
export const escapeAttribute = (text: string): string =>
  escapeText(text).replace(/[\t\n]/g, (char) => `&#${char.charCodeAt(0)};`);

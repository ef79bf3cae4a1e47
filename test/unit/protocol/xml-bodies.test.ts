/**
 * Every XML body of the surface under mutation (attacks 12). One law carries all of them: what is accepted is kept whole,
 * element for element and text for text, and what is not is `MalformedXML`.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Refusal } from '../../../src/errors/refusal.ts';
import { readXml, writeXml } from '../../../src/protocol/codec.ts';
import { type Node, parseXml } from '../../../src/protocol/xml-parse.ts';
import { type XmlBody, xmlBodies } from '../../support/xml-bodies.ts';

const limits = { maxBytes: 1 << 20 };
const bytes = (source: string): Uint8Array => new TextEncoder().encode(source);

/** An element to change; `text` only where there is nothing inside. */
interface Tree {
  name: string;
  attributes: string;
  text: string;
  children: Tree[];
}

const isBlank = (text: string): boolean => text.trim() === '';
const escaped = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');

function treeOf(node: Node): Tree {
  const type = node.attributes.get('type');
  return {
    name: node.name,
    attributes: type === undefined ? '' : ` type="${type}"`,
    text: isBlank(node.text) ? '' : node.text,
    children: node.children.map(treeOf),
  };
}

const parse = (source: string): Tree => treeOf(parseXml(bytes(source), limits));
const print = ({ name, attributes, text, children }: Tree): string =>
  `<${name}${attributes}>${escaped(text)}${children.map(print).join('')}</${name}>`;
const everyElement = (tree: Tree): Tree[] => [tree, ...tree.children.flatMap(everyElement)];

/** Elements with their places and texts, without the order between different names, which means nothing. */
function contentOf(tree: Tree, open: NonNullable<XmlBody['open']>): unknown {
  const known = open[tree.name];
  const children = tree.children.filter(({ name }) => known?.includes(name) ?? true);
  const byName = new Map<string, unknown[]>();
  for (const child of children) {
    byName.set(child.name, [...(byName.get(child.name) ?? []), contentOf(child, open)]);
  }
  // Of attributes the type of a grantee alone means something.
  return {
    type: tree.name === 'Grantee' ? tree.attributes : '',
    text: tree.text,
    children: Object.fromEntries(byName),
  };
}

/** The value of a document, or undefined where it is refused; any other fault fails the test. */
function read({ schema, root }: XmlBody, source: string): unknown {
  try {
    return readXml(schema, root, bytes(source), limits);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(error.code).toBe('MalformedXML');
    return undefined;
  }
}

function expectKeptWhole(body: XmlBody, tree: Tree): void {
  const value = read(body, print(tree));
  if (value === undefined) return;
  const written = writeXml(body.schema, body.root, value);
  expect(contentOf(parse(written), {})).toEqual(contentOf(tree, body.open ?? {}));
  expect(read(body, written)).toEqual(value);
}

/** Texts as they are written, so that an accepted one must come back as it was; and some that mean nothing anywhere. */
const words = fc.oneof(
  fc.constantFrom(
    '',
    '2',
    '10',
    '-1',
    '7',
    '2147483648',
    'true',
    'false',
    'Enabled',
    'Disabled',
    'Suspended',
    'ON',
  ),
  fc.constantFrom(
    'GOVERNANCE',
    'READ',
    'CSV',
    'AES256',
    'http',
    '2030-01-01T00:00:00.000Z',
    'ſ',
    '🙂',
    'a&b',
    '<',
  ),
  fc.constantFrom('1e3', 'NaN', '__proto__', 'null', 'enabled', 'Yes', '99999999999999999999'),
);

type Mutation = (
  tree: Tree,
  random: { readonly at: number; readonly to: number; readonly word: string },
) => void;
const pick = <T>(list: readonly T[], at: number): T => list[at % list.length] as T;

const mutations: Readonly<Record<string, Mutation>> = {
  'an element repeated': (tree, { at }) => {
    const parent = pick(
      everyElement(tree).filter(({ children }) => children.length > 0),
      at,
    );
    parent.children.push(structuredClone(pick(parent.children, at)));
  },
  'an element removed': (tree, { at, to }) => {
    const parent = pick(
      everyElement(tree).filter(({ children }) => children.length > 0),
      at,
    );
    parent.children.splice(to % parent.children.length, 1);
  },
  'an element moved': (tree, { at, to }) => {
    const parent = pick(
      everyElement(tree).filter(({ children }) => children.length > 0),
      at,
    );
    const [moved] = parent.children.splice(to % parent.children.length, 1);
    if (moved !== undefined) pick(everyElement(tree), to).children.push(moved);
  },
  'an element renamed': (tree, { at, to }) => {
    pick(everyElement(tree), at).name = pick(everyElement(tree), to).name;
  },
  'a text changed': (tree, { at, word }) => {
    pick(
      everyElement(tree).filter(({ children }) => children.length === 0),
      at,
    ).text = word;
  },
  'an attribute changed': (tree, { at, word }) => {
    pick(everyElement(tree), at).attributes = ` type="${word.replace(/[<&"]/g, '')}"`;
  },
};

describe.each(xmlBodies)('$root', (body) => {
  const original = (): Tree => parse(body.document);

  test('comes back as it was', () => {
    expect(read(body, body.document)).toBeDefined();
    expectKeptWhole(body, original());
  });

  test('means the same under a prefix, with comments, and with its elements in any order', () => {
    const value = read(body, body.document);
    const prefixed = body.document.replace(/<(\/?)(?=[A-Z])/g, '<$1s3:');
    expect(read(body, prefixed)).toEqual(value);
    expect(read(body, body.document.replace(/(<[A-Z][^>]*>)(?=\s*<)/g, '$1<!-- n -->'))).toEqual(value);
    const reversed = original();
    // The order of elements of one name means something, that between names does not.
    for (const each of everyElement(reversed))
      each.children.sort((a, b) => (a.name < b.name ? 1 : a.name > b.name ? -1 : 0));
    expect(read(body, print(reversed))).toEqual(value);
  });

  test('is refused with an element that nobody knows, wherever it stands', () => {
    everyElement(original()).forEach(({ name }, at) => {
      const tree = original();
      pick(everyElement(tree), at).children.push({
        name: 'Unknown',
        attributes: '',
        text: '1',
        children: [],
      });
      const value = read(body, print(tree));
      if (body.open?.[name] !== undefined) expect(value).toEqual(read(body, body.document));
      else expect(value).toBeUndefined();
    });
  });

  test('is refused, or kept whole, however it is changed', () => {
    const numbers = fc.nat({ max: 1000 });
    const change = fc.record({
      kind: fc.constantFrom(...Object.keys(mutations)),
      at: numbers,
      to: numbers,
      word: words,
    });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
        const tree = original();
        for (const { kind, ...random } of changes) {
          if (everyElement(tree).some(({ children }) => children.length > 0)) mutations[kind]?.(tree, random);
        }
        expectKeptWhole(body, tree);
      }),
      { numRuns: 300 },
    );
  });
});

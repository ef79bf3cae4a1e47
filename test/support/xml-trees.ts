/** XML documents as trees that a test can damage, in ways that fast-check chooses. */
import fc from 'fast-check';
import { type Node, parseXml } from '../../src/protocol/formats/xml-parse.ts';

/** An element to change; only elements without children have a `text`. */
export interface Tree {
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

export const parseTree = (source: string): Tree =>
  treeOf(parseXml(new TextEncoder().encode(source), { maxBytes: 1 << 20 }));
export const printTree = ({ name, attributes, text, children }: Tree): string =>
  `<${name}${attributes}>${escaped(text)}${children.map(printTree).join('')}</${name}>`;
export const everyElement = (tree: Tree): Tree[] => [tree, ...tree.children.flatMap(everyElement)];

/** Texts in their canonical form, so that an accepted one is returned unchanged; and some that are invalid everywhere. */
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
export const pick = <T>(list: readonly T[], at: number): T => list[at % list.length] as T;

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

/** The document with one to four changes, some of which keep it valid. */
export function damaged(source: string): fc.Arbitrary<Tree> {
  const numbers = fc.nat({ max: 1000 });
  const kind = fc.constantFrom(...Object.keys(mutations));
  const change = fc.record({ kind, at: numbers, to: numbers, word: words });
  return fc.array(change, { minLength: 1, maxLength: 4 }).map((changes) => {
    const tree = parseTree(source);
    for (const { kind: name, ...random } of changes) {
      if (everyElement(tree).some(({ children }) => children.length > 0)) mutations[name]?.(tree, random);
    }
    return tree;
  });
}

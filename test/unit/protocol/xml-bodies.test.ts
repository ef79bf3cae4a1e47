/** Every XML body of the API under mutation: an accepted body keeps every element and text, any other is `MalformedXML`. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Refusal } from '../../../src/base/errors.ts';
import { readXml, writeXml } from '../../../src/protocol/formats/codec.ts';
import { type XmlBody, xmlBodies } from '../../support/xml-bodies.ts';
import { damaged, everyElement, parseTree, pick, printTree, type Tree } from '../../support/xml-trees.ts';

const limits = { maxBytes: 1 << 20 };
const bytes = (source: string): Uint8Array => new TextEncoder().encode(source);

/** Elements with their places and texts. Elements of different names are not ordered, because their order has no meaning. */
function contentOf(tree: Tree, open: NonNullable<XmlBody['open']>): unknown {
  const known = open[tree.name];
  const children = tree.children.filter(({ name }) => known?.includes(name) ?? true);
  const byName = new Map<string, unknown[]>();
  for (const child of children) {
    byName.set(child.name, [...(byName.get(child.name) ?? []), contentOf(child, open)]);
  }
  // The type of a grantee is the only attribute with a meaning.
  return {
    type: tree.name === 'Grantee' ? tree.attributes : '',
    text: tree.text,
    children: Object.fromEntries(byName),
  };
}

/** The value of a document, or undefined when it is refused as MalformedXML; any other error fails the test. */
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
  const value = read(body, printTree(tree));
  if (value === undefined) return;
  const written = writeXml(body.schema, body.root, value);
  expect(contentOf(parseTree(written), {})).toEqual(contentOf(tree, body.open ?? {}));
  expect(read(body, written)).toEqual(value);
}

describe.each(xmlBodies)('$root', (body) => {
  const original = (): Tree => parseTree(body.document);

  test('is read back unchanged', () => {
    expect(read(body, body.document)).toBeDefined();
    expectKeptWhole(body, original());
  });

  test('means the same under a prefix, with comments, and with its elements in any order', () => {
    const value = read(body, body.document);
    const prefixed = body.document.replace(/<(\/?)(?=[A-Z])/g, '<$1s3:');
    expect(read(body, prefixed)).toEqual(value);
    expect(read(body, body.document.replace(/(<[A-Z][^>]*>)(?=\s*<)/g, '$1<!-- n -->'))).toEqual(value);
    const reversed = original();
    // Reverse only the order between elements of different names, which has no meaning.
    for (const each of everyElement(reversed))
      each.children.sort((a, b) => (a.name < b.name ? 1 : a.name > b.name ? -1 : 0));
    expect(read(body, printTree(reversed))).toEqual(value);
  });

  test('is refused with an unknown element at any place', () => {
    everyElement(original()).forEach(({ name }, at) => {
      const tree = original();
      pick(everyElement(tree), at).children.push({
        name: 'Unknown',
        attributes: '',
        text: '1',
        children: [],
      });
      const value = read(body, printTree(tree));
      if (body.open?.[name] !== undefined) expect(value).toEqual(read(body, body.document));
      else expect(value).toBeUndefined();
    });
  });

  test('is refused, or kept whole, however it is changed', () => {
    fc.assert(
      fc.property(damaged(body.document), (tree) => expectKeptWhole(body, tree)),
      { numRuns: 300 },
    );
  });
});

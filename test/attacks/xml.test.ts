/** Attack group 11 of docs/security.md: hostile XML documents are refused with MalformedXML in little time. */

import fc from 'fast-check';
import { XMLValidator } from 'fast-xml-parser';
import { expect, test } from 'vitest';
import { Refusal } from '../../src/base/errors.ts';
import { readXml, writeXml } from '../../src/protocol/formats/codec.ts';
import { parseXml } from '../../src/protocol/formats/xml-parse.ts';
import {
  completeMultipartUpload,
  completeMultipartUploadLimits,
} from '../../src/protocol/schemas/multipart.ts';
import { type DeleteRequest, deleteRequest, deleteRequestLimits } from '../../src/protocol/schemas/object.ts';
import { cpuMsOf, timesLonger } from '../support/cpu-time.ts';

const utf8 = (source: string): Uint8Array => new TextEncoder().encode(source);
/** An empty body is a fault of its own. */
const codeFor = ({ length }: Uint8Array | string): string =>
  length === 0 ? 'MissingRequestBodyError' : 'MalformedXML';
const parse = (source: string | Uint8Array, maxBytes = 1 << 22): DeleteRequest =>
  readXml(deleteRequest, 'Delete', typeof source === 'string' ? utf8(source) : source, { maxBytes });
function refuses(source: string | Uint8Array, message = /./): void {
  try {
    parse(source);
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    expect((error as Refusal).code).toBe(codeFor(source));
    expect((error as Refusal).message).toMatch(message);
    return;
  }
  throw new Error(`was accepted: ${String(source).slice(0, 200)}`);
}
const holding = (inside: string): string => `<Delete><Object><Key>${inside}</Key></Object></Delete>`;
const keyOf = (source: string | Uint8Array): string | undefined => parse(source).Object[0]?.Key;

test('control: the document that all others here are made from is read', () => {
  expect(keyOf(holding('k'))).toBe('k');
});

test('refuses document types and entities of every kind', () => {
  refuses(`<!DOCTYPE Delete>${holding('k')}`, /document type/);
  refuses(`<!doctype Delete>${holding('k')}`, /document type/);
  refuses(`<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>${holding('&x;')}`, /document type/);
  refuses(
    `<?xml version="1.0"?>\n<!DOCTYPE d SYSTEM "http://169.254.169.254/">${holding('k')}`,
    /document type/,
  );
  refuses(holding('<!ENTITY a "b">'), /document type/);
  for (const name of [
    'nbsp',
    'copy',
    'x',
    'AMP',
    'constructor',
    '__proto__',
    'toString',
    '#',
    '#x',
    '#xg',
    '#1a',
    '',
  ]) {
    refuses(holding(`&${name};`), /not one of the references/);
  }
  refuses(holding('&amp'), /not one of the references/);
  refuses(holding('a & b'), /not one of the references/);
  refuses(`<Delete a="&nbsp;"><Object><Key>k</Key></Object></Delete>`, /not one of the references/);
});

test('refuses a billion laughs without expanding one', () => {
  const entities = Array.from({ length: 10 }, (_, i) => `<!ENTITY l${i + 1} "${`&l${i};`.repeat(10)}">`);
  refuses(`<!DOCTYPE d [<!ENTITY l0 "lol">${entities.join('')}]>${holding('&l10;')}`, /document type/);
});

test('reads the five predefined references and numeric ones, once', () => {
  expect(keyOf(holding('&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#x1F600;&#13;&amp;lt;'))).toBe(
    '<>&"\'AB😀\r&lt;',
  );
  expect(keyOf(holding('<![CDATA[&amp;]]>'))).toBe('&amp;');
});

test('refuses references to what is no character', () => {
  for (const code of [
    '0',
    'x0',
    '1',
    'x1f',
    'xD800',
    'xDFFF',
    'xFFFE',
    'xFFFF',
    'x110000',
    '9999999999',
    'xFFFFFFFF',
  ]) {
    refuses(holding(`&#${code};`), /does not name a character/);
  }
  refuses(holding('&#99999999999;'));
});

test('never assembles markup or a reference from pieces', () => {
  refuses(holding('&am<!-- -->p;'));
  refuses(holding('&<![CDATA[amp;]]>'));
  expect(keyOf(holding('a<!-- <Key>x</Key> -->b'))).toBe('ab');
  expect(keyOf(holding('&lt;/Key&gt;'))).toBe('</Key>');
  expect(keyOf(holding('<![CDATA[</Key></Object>]]>'))).toBe('</Key></Object>');
});

test('refuses processing instructions and misplaced or unknown declarations', () => {
  refuses(holding('<?php echo 1 ?>'));
  refuses(`<?xml-stylesheet href="x"?>${holding('k')}`);
  refuses(` <?xml version="1.0"?>${holding('k')}`);
  refuses(`<?xml version="1.0"?><?xml version="1.0"?>${holding('k')}`);
  refuses(`<?xml version="2.0"?>${holding('k')}`, /declaration is not valid/);
  refuses(`<?xml version="1.0" encoding="UTF-16"?>${holding('k')}`, /must be UTF-8/);
  refuses(`<?xml version="1.0" encoding="ISO-8859-1"?>${holding('k')}`, /must be UTF-8/);
  expect(keyOf(`<?xml version="1.0" encoding="utf-8"?>\n<!-- c -->\n${holding('k')}\n<!-- c -->\n`)).toBe(
    'k',
  );
});

test('refuses elements that are mismatched, unclosed, overlapping or more than one root', () => {
  for (const source of [
    '<Delete><Object><Key>k</Object></Key></Delete>',
    '<Delete><Object><Key>k</Key></Object>',
    '<Delete><Object><Key>k</Key></Object></Delete',
    '<Delete><Object><Key>k</Key></Object></delete>',
    `${holding('k')}</Delete>`,
    `${holding('k')}${holding('k')}`,
    `${holding('k')}<Delete/>`,
    `<Delete/>${holding('k')}`,
    `${holding('k')}x`,
    `x${holding('k')}`,
    holding('<!-- '),
    holding('<!-- a -- b -->'),
    holding('<!-->'),
    holding('<![CDATA[ '),
    holding(']]>'),
    holding('<![cdata[x]]>'),
    '<![CDATA[x]]>',
    '< Delete><Object><Key>k</Key></Object></ Delete>',
    '<Delete><Object><Key>k</Key></Object></Delete a="1">',
    '<a:b:Delete><Object><Key>k</Key></Object></a:b:Delete>',
    '<s:Delete><Object><Key>k</Key></Object></Delete>',
    '<1/>',
    '<>',
    '<',
    '',
    ' ',
  ]) {
    refuses(source);
  }
});

test('refuses attributes that are doubled, unquoted, unclosed or glued together', () => {
  const withTag = (attributes: string): string =>
    `<Delete${attributes}><Object><Key>k</Key></Object></Delete>`;
  for (const bad of [
    ' a="1" a="2"',
    ' a=1',
    ' a',
    ' a="1',
    ' a="1"b="2"',
    ' a="<"',
    ' x:t="1" y:t="2"',
    '/a="1"',
  ]) {
    refuses(withTag(bad));
  }
  expect(keyOf(withTag(` a="/>" b='"' xmlns="u" xmlns:x='v'\n`))).toBe('k');
});

test('refuses 10,000 levels, and more than 32, without a stack', () => {
  refuses('<a>'.repeat(10_000), /nested more than 32 deep/);
  refuses('<a>'.repeat(33) + '</a>'.repeat(33), /nested more than 32 deep/);
  const node = parseXml(utf8('<a>'.repeat(32) + '</a>'.repeat(32)), { maxBytes: 1000 });
  expect(node.name).toBe('a');
});

test('refuses 100 MB by its size, before it is decoded', () => {
  const notUtf8 = new Uint8Array(100_000_000).fill(0xff);
  refuses(notUtf8, /100000000 bytes; at most/);
  const fits = utf8(holding('k'));
  expect(parse(fits, fits.length).Object).toHaveLength(1);
  expect(() => parse(fits, fits.length - 1)).toThrow('bytes; at most');
});

/** Hostile texts of some such length. */
const hostile = (length: number): readonly string[] => {
  const names = Array.from({ length: length / 20 }, (_, i) => `a${i}="1"`);
  return [
    `<Delete${' '.repeat(length)}x`,
    `<Delete ${'a'.repeat(length)}`,
    `<Delete${' a="'.repeat(length / 4)}`,
    holding('<'.repeat(length)),
    holding('&'.repeat(length)),
    holding('&#'.repeat(length / 2)),
    holding('<!--'.repeat(length / 4)),
    holding('<![CDATA['.repeat(length / 9)),
    `<Delete>${'</'.repeat(length / 2)}`,
    `<Delete>${'<a/>'.repeat(length / 4)}`,
    `<Delete>${names.map((name) => `<Object ${name}/>`).join('')}</Delete>`,
    `<Delete ${names.join(' ')}></Delete>`,
  ];
};

test('reads hostile megabytes in time that grows with their length only', async () => {
  const length = 1_000_000;
  const shorter = hostile(length / 16);
  for (const [index, source] of hostile(length).entries()) {
    const short = await cpuMsOf(() => refuses(shorter[index] ?? ''));
    // A second is for compilation and garbage collections. Quadratic time would be 256 times as long, and minutes.
    expect(await cpuMsOf(() => refuses(source)), source.slice(0, 30)).toBeLessThan(1_000 + 64 * short);
  }
});

test('refuses duplicate and unknown elements', () => {
  refuses('<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>', /Object\/Key appears more than once/);
  refuses(
    '<Delete><Quiet>true</Quiet><Quiet>false</Quiet><Object><Key>a</Key></Object></Delete>',
    /more than once/,
  );
  refuses('<Delete><Object><Key>a</Key></Object><Objects/></Delete>', /Delete\/Objects is not known/);
  refuses('<Delete><object><Key>a</Key></object></Delete>', /is not known/);
});

test('refuses UTF-16 and UTF-32, with and without a mark, and reads UTF-8 with one', () => {
  const wide = (source: string, little: boolean): Uint8Array => {
    const view = new DataView(new ArrayBuffer(source.length * 2));
    for (let i = 0; i < source.length; i++) view.setUint16(i * 2, source.charCodeAt(i), little);
    return new Uint8Array(view.buffer);
  };
  for (const little of [true, false]) {
    refuses(wide(holding('k'), little), /must be UTF-8/);
    refuses(wide(`\ufeff${holding('k')}`, little), /must be UTF-8/);
  }
  refuses(new Uint8Array([0, 0, 0xfe, 0xff, 0, 0, 0, 60]), /must be UTF-8/);
  expect(keyOf(`\ufeff<?xml version="1.0"?>${holding('k')}`)).toBe('k');
  refuses(`\ufeff\ufeff${holding('k')}`);
});

test('refuses bytes that are not UTF-8', () => {
  for (const bad of [
    [0x80],
    [0xc0, 0x80],
    [0xed, 0xa0, 0x80],
    [0xf4, 0x90, 0x80, 0x80],
    [0xe2, 0x82],
    [0xff],
  ]) {
    const [before, after] = holding('|').split('|') as [string, string];
    refuses(new Uint8Array([...utf8(before), ...bad, ...utf8(after)]), /not valid UTF-8/);
  }
});

test('refuses NUL and control characters, and keeps tab, line feed and delete', () => {
  for (let code = 0; code < 32; code++) {
    if (code === 9 || code === 10 || code === 13) continue;
    refuses(holding(`a${String.fromCharCode(code)}`), /a character that XML cannot carry/);
  }
  refuses(holding('\ufffe'));
  expect(keyOf(holding('\t\n\u007f'))).toBe('\t\n\u007f');
  // XML parsers turn every line end into a line feed; only a character reference keeps a carriage return.
  expect(keyOf(holding('\r\n\r'))).toBe('\n\n');
});

test('elements and attributes named like properties of objects are harmless', () => {
  for (const name of [
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    'hasOwnProperty',
    '__defineGetter__',
  ]) {
    refuses(`<Delete><${name}><polluted>1</polluted></${name}><Object><Key>k</Key></Object></Delete>`);
    refuses(`<${name}/>`);
    try {
      expect(keyOf(`<Delete ${name}="1" x:${name}x="2"><Object><Key>k</Key></Object></Delete>`)).toBe('k');
    } catch (error) {
      expect((error as Refusal).code).toBe('MalformedXML');
    }
  }
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

const original = utf8(
  `${writeXml(deleteRequest, 'Delete', {
    Quiet: true,
    Object: [
      { Key: 'a & <b>\r\n"é😀', VersionId: 'v', ETag: '"e"' },
      { Key: ' b ', Size: 7, LastModifiedTime: '2026-11-05T10:00:00.000Z' },
    ],
  })}<!-- c -->`,
);
const snippets = [
  '<',
  '>',
  '&',
  '"',
  '/',
  '<!--',
  '-->',
  '<![CDATA[',
  ']]>',
  '<?',
  '?>',
  '&amp;',
  '&#',
  ';',
  '<Key>',
];
const mutation = fc.record({
  at: fc.nat({ max: original.length - 1 }),
  remove: fc.nat({ max: 8 }),
  insert: fc.oneof(fc.uint8Array({ maxLength: 3 }), fc.constantFrom(...snippets.map(utf8))),
});

test('a document with bytes changed anywhere is MalformedXML, or means the same when written and read again', () => {
  fc.assert(
    fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
      const bytes = [...original];
      for (const { at, remove, insert } of mutations) bytes.splice(at, remove, ...insert);
      const mutated = new Uint8Array(bytes);
      let value: DeleteRequest;
      try {
        value = parse(mutated);
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal);
        expect((error as Refusal).code).toBe('MalformedXML');
        return;
      }
      expect(XMLValidator.validate(new TextDecoder().decode(mutated))).toBe(true);
      expect(parse(writeXml(deleteRequest, 'Delete', value))).toEqual(value);
    }),
    { numRuns: 5000 },
  );
});

test('arbitrary bytes and text are never another exception', () => {
  const run = (source: Uint8Array | string): void => {
    try {
      parse(source);
    } catch (error) {
      expect((error as Refusal).code).toBe(codeFor(source));
    }
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), run), { numRuns: 500 });
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 60 }).map(holding), run), { numRuns: 1000 });
});

test('four bodies of nothing but elements, attributes or comments are refused sooner than one of them is read in full', async () => {
  const megabytes = (piece: string): string => piece.repeat((4 << 20) / piece.length - 10);
  const attributes = Array.from({ length: 300_000 }, (_, i) => ` a${i}=""`).join('');
  const elements = `<Delete>${megabytes('<a/>')}</Delete>`;
  const refuseAll = () => {
    refusesWith(elements, /more than 6002 elements/);
    refusesWith(`<Delete>${megabytes('<a></a>')}</Delete>`, /more than 6002 elements/);
    refusesWith(`<Delete>${megabytes('<!---->')}</Delete>`, /more than 6002 elements/);
    refusesWith(`<Delete${attributes}/>`, /more than 16 attributes/);
  };
  const readInFull = () => parseXml(utf8(elements), { maxBytes: 1 << 23, elementsMax: 1 << 21 });
  // Usually a twelfth.
  expect(await timesLonger(refuseAll, readInFull, 2)).toBeLessThan(1);
});

test('elements, and comments with CDATA sections, are each bounded as the document is read', () => {
  const limits = { maxBytes: 10_000, elementsMax: 4 };
  const read = (source: string) => () => parseXml(utf8(source), limits);
  expect(read('<a><b/><c></c><d>1</d></a>')().children).toHaveLength(3);
  expect(read('<a><b/><c></c><d>1</d><e/></a>')).toThrow('more than 4 elements');
  expect(read('<a><!----><![CDATA[]]><!----><![CDATA[]]><b/></a>')().children).toHaveLength(1);
  expect(read('<a><!----><![CDATA[]]><!----><![CDATA[]]><!----></a>')).toThrow('more than 4 elements');
  // What stands behind the bound is not read, and so is not what the refusal is about.
  expect(read(`<a>${'<b/>'.repeat(4)}<1 &`)).toThrow('more than 4 elements');
  // A `<` in a comment or a CDATA section begins no element.
  expect(read(`<a><!--${'<b>'.repeat(10)}--><![CDATA[${'<!'.repeat(10)}]]></a>`)().text).toBe(
    '<!'.repeat(10),
  );
});

test('the largest bodies that the schemas take are within the limits', () => {
  const object =
    '<Object><Key>k</Key><VersionId>v</VersionId><ETag>e</ETag><LastModifiedTime>Wed, 21 Oct 2015 07:28:00 GMT</LastModifiedTime><Size>1</Size></Object>';
  const head = '<?xml version="1.0"?><Delete><Quiet>true</Quiet>';
  const whole = `${head}${object.repeat(1000)}</Delete>`;
  expect(readXml(deleteRequest, 'Delete', utf8(whole), deleteRequestLimits).Object).toHaveLength(1000);
  refusesWith(`${head}${object.repeat(1000)}<Quiet/></Delete>`, /more than 6002 elements/);
  const sums = ['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'].map(
    (name) => `<Checksum${name}>x</Checksum${name}>`,
  );
  const part = `<Part><PartNumber>1</PartNumber><ETag>e</ETag>${sums.join('')}</Part>`;
  const parts = `<CompleteMultipartUpload>${part.repeat(10_000)}</CompleteMultipartUpload>`;
  const limits = { ...completeMultipartUploadLimits, maxBytes: parts.length };
  const read = readXml(completeMultipartUpload, 'CompleteMultipartUpload', utf8(parts), limits);
  expect(read.Part).toHaveLength(10_000);
});

function refusesWith(source: string, message: RegExp): void {
  const read = () => readXml(deleteRequest, 'Delete', utf8(source), deleteRequestLimits);
  expect(read).toThrow(expect.objectContaining({ code: 'MalformedXML' }));
  expect(read).toThrow(message);
}

/** The XML combinators: one schema reads, writes, orders and bounds; every error names its place. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Refusal } from '../../../src/base/errors.ts';
import {
  atMostOne,
  attribute,
  bool,
  choice,
  date,
  element,
  type Infer,
  int,
  many,
  oneOf,
  optional,
  readXml,
  rest,
  text,
  token,
  writeXml,
} from '../../../src/protocol/formats/codec.ts';

const bytes = (source: string): Uint8Array => new TextEncoder().encode(source);
const limits = { maxBytes: 1 << 20 };

const item = element({ Key: text, Size: optional(int({ min: 0, max: 10 })) });
const sample = element({
  Name: token,
  On: optional(bool),
  When: optional(date),
  Mode: optional(oneOf('Fast', 'Safe')),
  Item: many(item, { max: 3 }),
  Tags: optional(many(text, { name: 'Tag', min: 1, max: 2 })),
});
const read = (source: string): Infer<typeof sample> => readXml(sample, 'Sample', bytes(source), limits);
const refusal = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    expect((error as Refusal).code).toBe('MalformedXML');
    return (error as Refusal).message;
  }
  throw new Error('was accepted');
};

test('writes elements in the order of the schema and reads them in any order', () => {
  const value = { Item: [{ Size: 1, Key: 'k' }], Name: 'n', Tags: ['a', 'b'] };
  const written =
    '<?xml version="1.0" encoding="UTF-8"?>\n<Sample xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
    '<Name>n</Name><Item><Key>k</Key><Size>1</Size></Item><Tags><Tag>a</Tag><Tag>b</Tag></Tags></Sample>';
  expect(writeXml(sample, 'Sample', value)).toBe(written);
  expect(read('<Sample><Item><Size>1</Size><Key>k</Key></Item><Name>n</Name></Sample>')).toEqual({
    Name: 'n',
    Item: [{ Key: 'k', Size: 1 }],
  });
});

test('makes no property for an absent element', () => {
  expect(Object.keys(read('<Sample><Name>n</Name></Sample>'))).toEqual(['Name', 'Item']);
});

test('reports what is wrong and where', () => {
  const cases: readonly (readonly [inside: string, message: string])[] = [
    ['', 'Sample/Name is required'],
    ['<Name>a</Name><Name>a</Name>', 'Sample/Name appears more than once'],
    ['<Name><b/></Name>', 'Sample/Name must hold text, not elements'],
    ['<Name>a</Name>stray', 'Sample must hold elements, not text'],
    ['<Name>a</Name><On>yes</On>', 'Sample/On must be true or false, not "yes"'],
    ['<Name>a</Name><On></On>', 'Sample/On must be true or false, not ""'],
    ['<Name>a</Name><Mode>fast</Mode>', 'Sample/Mode must be one of Fast, Safe, not "fast"'],
    ['<Name>a</Name><Other/>', 'Sample/Other is not known here'],
    ['<Name>a</Name><Item><Key>k</Key></Item><Item/>', 'Sample/Item[2]/Key is required'],
    [
      '<Name>a</Name><Item><Key>k</Key><Size>11</Size></Item>',
      'Sample/Item/Size must be from 0 to 10, not 11',
    ],
    ['<Name>a</Name><Tags/>', 'Sample/Tags/Tag is required'],
    ['<Name>a</Name><Tags><Tag/><Other/></Tags>', 'Sample/Tags/Other is not known here'],
    [
      `<Name>a</Name>${'<Item><Key>k</Key></Item>'.repeat(4)}`,
      'Sample/Item appears 4 times; at most 3 are accepted',
    ],
  ];
  for (const [inside, message] of cases) {
    expect(refusal(() => read(`<Sample>${inside}</Sample>`))).toBe(message);
  }
  expect(refusal(() => read('<Other/>'))).toBe('The root element must be Sample, not Other');
  expect(read(`<Sample><Name>a</Name>${'<Item><Key>k</Key></Item>'.repeat(3)}</Sample>`).Item).toHaveLength(
    3,
  );
});

test('reads whole numbers as numbers and nothing else', () => {
  const size = (written: string): number | undefined =>
    read(`<Sample><Name/><Item><Key/><Size>${written}</Size></Item></Sample>`).Item[0]?.Size;
  expect(['7', ' 007\n', '+7', '10', '0', '-0'].map(size)).toEqual([7, 7, 7, 10, 0, 0]);
  for (const bad of ['', '1.0', '1e1', '0x1', '٣', 'NaN', '-1', '99999999999999999999', '1 1', '1,1']) {
    refusal(() => size(bad));
  }
});

test('reads dates of both forms as one, and refuses days that no calendar has', () => {
  const when = (written: string): string | undefined =>
    read(`<Sample><Name/><When>${written}</When></Sample>`).When;
  const moment = '2026-11-05T10:00:00.000Z';
  for (const same of [
    moment,
    '2026-11-05T10:00:00Z',
    '2026-11-05T12:00:00+02:00',
    'Thu, 05 Nov 2026 10:00:00 GMT',
  ]) {
    expect(when(same)).toBe(moment);
  }
  expect(when('2026-11-05')).toBe('2026-11-05T00:00:00.000Z');
  for (const bad of [
    '',
    'today',
    '2026-02-31T00:00:00Z',
    '2026-13-01',
    '2026-00-01',
    '1',
    'Thu, 31 Feb 2026 10:00:00 GMT',
    '2026-11-05T24:00:01Z',
  ]) {
    refusal(() => when(bad));
  }
});

test('keeps whitespace in text and drops it around tokens', () => {
  const value = read('<Sample><Name>\n n \n</Name><Item><Key> a\tb\n </Key></Item></Sample>');
  expect(value).toEqual({ Name: 'n', Item: [{ Key: ' a\tb\n ' }] });
});

test('keeps elements of several names in one order', () => {
  const list = element({ entries: choice({ A: text, B: int() }, { max: 3 }) });
  const value = { entries: [{ B: 1 }, { A: 'x' }, { B: 2 }] } as const;
  const written = writeXml(list, 'L', value, { namespace: '' });
  expect(written).toContain('<L><B>1</B><A>x</A><B>2</B></L>');
  expect(readXml(list, 'L', bytes(written), limits)).toEqual(value);
  refusal(() => readXml(list, 'L', bytes(`<L>${'<A/>'.repeat(4)}</L>`), limits));
});

test('refuses a value that breaks a rule between its elements, with its place', () => {
  const either = atMostOne({ A: optional(text), B: optional(text) });
  const list = element({ Either: many(either, { max: 2 }) });
  const readList = (inside: string) => readXml(list, 'L', bytes(`<L>${inside}</L>`), limits);
  expect(readList('<Either/><Either><A/></Either>')).toEqual({ Either: [{}, { A: '' }] });
  expect(refusal(() => readList('<Either><A/><B/></Either>'))).toBe('L/Either may hold only one of A, B');
});

test('ignores unknown elements only where a schema says so', () => {
  const open = element({ Name: text }, { unknown: 'ignore' });
  expect(readXml(open, 'S', bytes('<S><New><Deep/></New><Name>n</Name><New/></S>'), limits)).toEqual({
    Name: 'n',
  });
});

test('reads and writes the type attribute of a grantee under any prefix', () => {
  const grantee = element({
    kind: attribute('xsi:type', oneOf('CanonicalUser', 'Group')),
    ID: optional(text),
  });
  const written = writeXml(grantee, 'Grantee', { kind: 'Group', ID: 'a' }, { namespace: '' });
  expect(written).toContain(
    '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group"><ID>a</ID></Grantee>',
  );
  expect(readXml(grantee, 'Grantee', bytes(written), limits)).toEqual({ kind: 'Group', ID: 'a' });
  expect(readXml(grantee, 'Grantee', bytes('<Grantee x:type="Group"/>'), limits)).toEqual({ kind: 'Group' });
  expect(refusal(() => readXml(grantee, 'Grantee', bytes('<Grantee/>'), limits))).toContain(
    'xsi:type is required',
  );
  const open = element({ kind: optional(attribute('xsi:type', token)) });
  expect(writeXml(open, 'G', {}, { namespace: '' })).toContain('<G></G>');
  expect(writeXml(open, 'G', { kind: 'a"\n<' }, { namespace: '' })).toContain('"a&quot;&#10;&lt;"');
});

test('gathers the elements that no field names, and puts them back in their place', () => {
  const open = element({ Code: text, more: optional(rest), Id: text });
  const written = writeXml(
    open,
    'E',
    { Code: 'c', more: { Key: 'k<', Limit: 3 }, Id: 'i' },
    { namespace: '' },
  );
  expect(written).toContain('<Code>c</Code><Key>k&lt;</Key><Limit>3</Limit><Id>i</Id>');
  expect(readXml(open, 'E', bytes(written), limits)).toEqual({
    Code: 'c',
    more: { Key: 'k<', Limit: '3' },
    Id: 'i',
  });
});

/** Every character that XML 1.0 can contain, with more of those that must be escaped. */
const character = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom('&', '<', '>', '"', "'", '\r', '\n', '\t', ' ', ']', '-', ';', '#', 'a'),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
);
const carried = fc
  .array(character, { maxLength: 20 })
  .map((units) => units.join(''))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: XML 1.0 cannot contain these characters.
  .filter((found) => !/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/.test(found) && found.isWellFormed());

test('every text that XML can contain is read back unchanged', () => {
  fc.assert(
    fc.property(carried, fc.array(carried, { maxLength: 3 }), (key, keys) => {
      const value = { Name: 'n', Item: [key, ...keys].slice(0, 3).map((Key) => ({ Key })) };
      expect(read(writeXml(sample, 'Sample', value))).toEqual(value);
    }),
    { numRuns: 500 },
  );
});

test('every value of a schema is read back unchanged', () => {
  const value = fc.record(
    {
      Name: fc.stringMatching(/^[A-Za-z0-9_-]{0,9}$/),
      Item: fc.array(
        fc.record({ Key: carried, Size: fc.integer({ min: 0, max: 10 }) }, { requiredKeys: ['Key'] }),
        {
          maxLength: 3,
        },
      ),
      On: fc.boolean(),
      When: fc
        .date({ noInvalidDate: true, min: new Date('0001-01-01'), max: new Date('9999-12-31') })
        .map((at) => at.toISOString()),
      Mode: fc.constantFrom('Fast' as const, 'Safe' as const),
      Tags: fc.array(carried, { minLength: 1, maxLength: 2 }),
    },
    { requiredKeys: ['Name', 'Item'] },
  );
  fc.assert(
    fc.property(value, (given) => {
      expect(read(writeXml(sample, 'Sample', given))).toEqual(given);
    }),
  );
});

test('a control character is written as a reference, so that no client reads another key', () => {
  expect(writeXml(text, 'Key', 'a\u0001\u0000\uffff', { namespace: '' })).toContain(
    '<Key>a&#x1;&#x0;&#xffff;</Key>',
  );
});

test('a document that declares XML 1.1 may refer to control characters, except NUL', () => {
  const key = (source: string): string => readXml(text, 'Key', bytes(source), limits);
  expect(key('<?xml version="1.1"?><Key>a&#1;&#x1f;</Key>')).toBe('a\u0001\u001f');
  refusal(() => key('<?xml version="1.0"?><Key>a&#1;</Key>'));
  refusal(() => key('<?xml version="1.1"?><Key>a&#0;</Key>'));
});

/** Browser forms: parsed exactly for any split of their bytes, and nothing else is accepted as a form. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Form, parseBoundary, readForm } from '../../../src/protocol/form-data.ts';
import { timesLonger } from '../../support/cpu-time.ts';
import { boundary, encodeForm, type FormPart, fieldsOf, fileOf } from '../../support/post-form.ts';

async function* pieces(body: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, i = 0; at < body.length; i += 1) {
    const size = sizes[i % sizes.length] || 1;
    yield body.slice(at, at + size);
    at += size;
  }
}
const read = (body: Uint8Array | string, sizes = [64 * 1024], mark = boundary): Promise<Form> =>
  readForm(pieces(Buffer.from(body), sizes), mark);

async function whole(form: Form) {
  const content: Uint8Array[] = [];
  for await (const piece of form.file.content) content.push(piece.slice());
  return { fields: [...form.fields], name: form.file.name, content: Buffer.concat(content) };
}
const codeOf = (reading: Promise<unknown>): Promise<string> =>
  reading.then(
    () => 'read',
    (cause) => cause.code ?? String(cause),
  );

test('a form means the same however it is cut, and a file may hold all but its delimiter', async () => {
  const bait = fc.constantFrom(
    '\r',
    '\n',
    '\r\n',
    '--',
    `\r\n--${boundary.slice(0, -1)}`,
    `\r\n-`,
    `--${boundary}`,
    '\0',
  );
  const content = fc
    .array(fc.oneof(bait, fc.string({ maxLength: 20 })), { maxLength: 12 })
    .map((list) => list.join(''))
    .filter((text) => !text.includes(`\r\n--${boundary}`));
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,9}$/).filter((text) => text !== 'file');
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.tuple(name, content), { maxLength: 5, selector: ([key]) => key }),
      content,
      fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 5 }),
      async (fields, file, sizes) => {
        const parts: FormPart[] = fields.map(([key, value]) => ({ name: key, value }));
        const found = await whole(await read(encodeForm([...parts, fileOf(file)]), sizes));
        expect(found).toEqual({ fields, name: 'photo.jpg', content: Buffer.from(file) });
      },
    ),
    { numRuns: 300 },
  );
});

test('names are read without regard to case; values and file names are kept unchanged', async () => {
  const disposition = (text: string) => `--b\r\n${text}\r\n\r\n`;
  const body = [
    disposition('content-disposition:form-data;NAME=KEY'),
    'a/ü\r\n',
    disposition(
      'X-Other: y\r\nContent-Disposition: form-data; name="Policy"; filename="policy"\r\nContent-Type: a/b',
    ),
    '\r\n\r\n',
    disposition('Content-Disposition: form-data; filename="C:\\dir\\a \\"b\\".txt" ; name="file"'),
    'x\r\n--b--',
  ].join('');
  expect(await whole(await read(body, [7], 'b'))).toEqual({
    fields: [
      ['key', 'a/ü'],
      ['policy', '\r\n'],
    ],
    name: 'C:\\dir\\a "b".txt',
    content: Buffer.from('x'),
  });
});

test('what follows the file is no field, and a second file is no file', async () => {
  const after = await whole(
    await read(encodeForm([fileOf('x'), ...fieldsOf({ submit: 'Go', key: 'late' })])),
  );
  expect([after.fields, String(after.content)]).toEqual([[], 'x']);
  const second = await read(encodeForm([fileOf('x'), fileOf('y')]));
  expect(await codeOf(whole(second))).toBe('InvalidArgument');
  const long = await read(encodeForm([fileOf('x'), ...fieldsOf({ submit: 'x'.repeat(21 * 1024) })]));
  expect(await codeOf(whole(long))).toBe('MaxPostPreDataLengthExceededError');
});

test('text before the first delimiter and after the last is passed over, within bounds', async () => {
  const form = Buffer.from(encodeForm([fileOf('x')])).toString();
  expect(String((await whole(await read(`preamble\r\n${form}epilogue`))).content)).toBe('x');
  expect(await codeOf(read(`${'x'.repeat(21 * 1024)}\r\n${form}`))).toBe('MaxPostPreDataLengthExceededError');
  expect(await codeOf(whole(await read(form + 'x'.repeat(21 * 1024))))).toBe(
    'MaxPostPreDataLengthExceededError',
  );
});

describe('a form is refused', () => {
  const field = (head: string) => `--${boundary}\r\n${head}\r\n\r\nv\r\n--${boundary}--`;
  test.each([
    ['that is empty', '', 'MalformedPOSTRequest'],
    ['without its delimiter', 'key=value', 'MalformedPOSTRequest'],
    ['with another delimiter', encodeForm([fileOf('x')], 'other'), 'MalformedPOSTRequest'],
    ['whose delimiter goes on', `--${boundary}x\r\n`, 'MalformedPOSTRequest'],
    ['that ends in a head', `--${boundary}\r\nContent-Disposition: form-data; na`, 'MalformedPOSTRequest'],
    [
      'that ends in a field',
      `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\nv`,
      'MalformedPOSTRequest',
    ],
    ['with a part without a head', field(''), 'MalformedPOSTRequest'],
    [
      'with a part that is no field',
      field('Content-Disposition: attachment; name="a"'),
      'MalformedPOSTRequest',
    ],
    ['with a part without a name', field('Content-Disposition: form-data'), 'MalformedPOSTRequest'],
    ['with an empty name', field('Content-Disposition: form-data; name=""'), 'MalformedPOSTRequest'],
    ['with two names', field('Content-Disposition: form-data; name="a"; name="b"'), 'MalformedPOSTRequest'],
    [
      'with two dispositions',
      field('Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"'),
      'MalformedPOSTRequest',
    ],
    ['with an open quote', field('Content-Disposition: form-data; name="a'), 'MalformedPOSTRequest'],
    [
      'that is not UTF-8',
      Buffer.concat([
        Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n`),
        Buffer.from([0xff]),
        Buffer.from(`\r\n--${boundary}--`),
      ]),
      'MalformedPOSTRequest',
    ],
    ['without a file', encodeForm(fieldsOf({ key: 'k' })), 'InvalidArgument'],
    [
      'with a field twice',
      encodeForm([...fieldsOf({ key: 'a' }), ...fieldsOf({ KEY: 'b' }), fileOf('x')]),
      'InvalidArgument',
    ],
    [
      'with 101 fields',
      encodeForm([
        ...fieldsOf(Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`f${i}`, '']))),
        fileOf('x'),
      ]),
      'MaxPostPreDataLengthExceededError',
    ],
    [
      'with more than 20 KiB of fields',
      encodeForm([...fieldsOf({ a: 'x'.repeat(20 * 1024) }), fileOf('x')]),
      'MaxPostPreDataLengthExceededError',
    ],
  ] as const)('%s', async (_, body, code) => {
    for (const sizes of [[64 * 1024], [1], [3, 1]]) expect(await codeOf(read(body, sizes))).toBe(code);
  });

  test('whose file is torn', async () => {
    const body = Buffer.from(encodeForm([fileOf('content')]));
    for (const end of [body.length - 6, body.length - boundary.length]) {
      const form = await read(body.subarray(0, end));
      expect(await codeOf(whole(form))).toBe('MalformedPOSTRequest');
    }
  });

  test('where 100 fields of 20 KiB together are taken', async () => {
    const fields = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}`, 'x'.repeat(80)]));
    expect((await whole(await read(encodeForm([...fieldsOf(fields), fileOf('x')])))).fields).toHaveLength(
      100,
    );
  });
});

describe('the boundary', () => {
  test.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Form-Data;charset=utf-8; Boundary="a b"', undefined],
    ['multipart/form-data; boundary="a:b?c"', 'a:b?c'],
    [`multipart/form-data; boundary=${'x'.repeat(70)}`, 'x'.repeat(70)],
    [`multipart/form-data; boundary=${'x'.repeat(71)}`, undefined],
    ['multipart/form-data', undefined],
    ['multipart/form-data; boundary=', undefined],
    ['multipart/form-data; boundary=""', undefined],
    ['multipart/form-data; boundary="a', undefined],
    ['multipart/form-data; boundary=a; boundary=b', undefined],
  ])('of %s', (type, expected) => {
    if (expected !== undefined) expect(parseBoundary(type)).toBe(expected);
    else expect(() => parseBoundary(type)).toThrow(expect.objectContaining({ code: 'MalformedPOSTRequest' }));
  });

  test('of what is no form', () => {
    for (const type of [undefined, '', 'text/plain', 'multipart/mixed; boundary=a'])
      expect(() => parseBoundary(type)).toThrow(expect.objectContaining({ code: 'PreconditionFailed' }));
  });
});

test('a file of half delimiters costs no more than its length', async () => {
  const almost = `\r\n--${boundary.slice(0, -1)}`;
  const reading = (count: number) => {
    const form = encodeForm([fileOf(almost.repeat(count))]);
    return async () => {
      const { content } = await whole(await read(form));
      expect(content.length).toBe(almost.length * count);
    };
  };
  // Quadratic time would be 256 times as long.
  expect(await timesLonger(reading(96_000), reading(6_000))).toBeLessThan(80);
});

test('all text of a form that is held in memory is reserved ahead, and a file and what follows it are not', async () => {
  const fields = [...fieldsOf({ key: 'k', 'x-ignore-a': 'x'.repeat(5_000) }), fileOf('f'.repeat(9_000))];
  const form = encodeForm([...fields, ...fieldsOf({ submit: 'y'.repeat(8_000) })]);
  let reserved = 0;
  await whole(
    await readForm(pieces(form, [1]), boundary, (bytes) => {
      reserved += bytes;
    }),
  );
  expect(reserved).toBeGreaterThan(5_000);
  expect(reserved).toBeLessThan(6_500);
});

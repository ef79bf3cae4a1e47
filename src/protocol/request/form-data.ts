/**
 * Forms as browsers send them: `multipart/form-data` (RFC 7578), whose fields come before its file. The fields are
 * read whole, within bounds; the file is a stream.
 */
import { fail } from '../../errors/refusal.ts';
import { escapeText } from '../formats/xml.ts';
import { FormCursor, malformedForm } from './form-cursor.ts';

/** Everything but the file (public API "POST Object"). */
const textBytesMax = 20 * 1024;
const fieldsMax = 100;

export interface FormFile {
  /** As it was sent, including a path; '' where there is none. */
  readonly name: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/**
 * The fields with the name of the file in the place of `${filename}`, without its path, which older browsers send with it.
 * @throws MaxPostPreDataLengthExceededError where the fields become too long: a long name may stand in a field many times
 */
export function nameFile({ fields, file }: Form): Map<string, string> {
  const name = file.name.replace(/^.*[/\\]/s, '');
  let room = textBytesMax;
  const named = new Map<string, string>();
  for (const [field, value] of fields) {
    const pieces = value.split(fileVariable);
    room -= value.length + (pieces.length - 1) * name.length;
    if (room < 0) throw fail('MaxPostPreDataLengthExceededError');
    named.set(field, pieces.join(field === 'tagging' ? escapeText(name) : name));
  }
  return named;
}
// biome-ignore lint/suspicious/noTemplateCurlyInString: it is what forms say.
const fileVariable = '${filename}';

export interface Form {
  /** By name in lower case. What follows the file is no field. */
  readonly fields: ReadonlyMap<string, string>;
  readonly file: FormFile;
}

/** @throws PreconditionFailed for anything but a form, in the public API's words; MalformedPOSTRequest */
export function parseBoundary(contentType: string | undefined): string {
  const [type = '', ...parameters] = (contentType ?? '').split(';').map((part) => part.trim());
  if (type.toLowerCase() !== 'multipart/form-data')
    throw fail('PreconditionFailed', {
      elements: { Condition: 'Bucket POST must be of the enclosure-type multipart/form-data' },
    });
  const given = parameters.filter((parameter) => /^boundary=/i.test(parameter));
  const boundary = /^[^=]*=("?)([0-9A-Za-z'()+_,\-./:=?]{1,70})\1$/.exec(given[0] ?? '')?.[2];
  if (boundary === undefined || given.length > 1) throw malformedForm();
  return boundary;
}

const lineBreak = latin1Bytes('\r\n');
const fileField = 'file';

/** @throws MalformedPOSTRequest, MaxPostPreDataLengthExceededError, InvalidArgument for a form without a file or with a field twice */
export async function readForm(body: AsyncIterable<Uint8Array>, boundary: string): Promise<Form> {
  const cursor = new FormCursor(body, textBytesMax);
  const delimiter = latin1Bytes(`\r\n--${boundary}`);
  try {
    // The first delimiter is at the beginning: its line break counts as read.
    await cursor.read(delimiter, lineBreak.length);
    const fields = new Map<string, string>();
    for (;;) {
      const part = await readHead(cursor);
      if (part === undefined) throw wrongFileCount(0);
      if (part.name === fileField)
        return { fields, file: { name: part.fileName, content: readFile(cursor, delimiter) } };
      if (fields.has(part.name))
        throw fail('InvalidArgument', {
          message: `The field ${part.name} was given more than once`,
          elements: { ArgumentName: part.name },
        });
      if (fields.size >= fieldsMax) throw fail('MaxPostPreDataLengthExceededError');
      fields.set(part.name, decodeUtf8(await cursor.read(delimiter)));
    }
  } catch (cause) {
    await cursor.close();
    throw cause;
  }
}

/** The file; it ends when the whole form has, so that a second file or a torn end is met before it counts. */
async function* readFile(cursor: FormCursor, delimiter: Uint8Array): AsyncGenerator<Uint8Array> {
  try {
    yield* cursor.until(delimiter);
    cursor.allow(textBytesMax);
    // Buttons follow the file in many a form.
    for (let part = await readHead(cursor); part !== undefined; part = await readHead(cursor)) {
      if (part.name === fileField) throw wrongFileCount(2);
      await cursor.read(delimiter);
    }
    await cursor.finish();
  } finally {
    await cursor.close();
  }
}

const wrongFileCount = (count: number) =>
  fail('InvalidArgument', {
    message: 'POST requires exactly one file upload per request.',
    elements: { ArgumentName: fileField, ArgumentValue: count },
  });

interface PartHead {
  readonly name: string;
  readonly fileName: string;
}

/** The part after a delimiter: the head of a field, or the end of the form. */
async function readHead(cursor: FormCursor): Promise<PartHead | undefined> {
  const mark = decodeUtf8(await cursor.take(2));
  if (mark === '--') return undefined;
  if (mark !== '\r\n') throw malformedForm();
  let disposition: string | undefined;
  for (;;) {
    const line = decodeUtf8(await cursor.read(lineBreak));
    if (line === '') break;
    const value = /^content-disposition[ \t]*:(.*)$/is.exec(line)?.[1];
    if (value === undefined) continue;
    if (disposition !== undefined) throw malformedForm();
    disposition = value;
  }
  return parseDisposition(disposition);
}

const parameter = /;[ \t]*([a-z*]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"[ \t]*|([^\s;"]+)[ \t]*|)/giy;

function parseDisposition(value: string | undefined): PartHead {
  const start = /^[ \t]*form-data[ \t]*/i.exec(value ?? '')?.[0].length;
  if (value === undefined || start === undefined) throw malformedForm();
  const given = new Map<string, string>();
  parameter.lastIndex = start;
  for (let at = start; at < value.length; at = parameter.lastIndex) {
    const [, name = '', quoted, bare = ''] = parameter.exec(value) ?? [];
    if (name === '' || given.has(name.toLowerCase())) throw malformedForm();
    given.set(name.toLowerCase(), quoted?.replace(/\\(["\\])/g, '$1') ?? bare);
  }
  const name = given.get('name');
  if (name === undefined || name === '') throw malformedForm();
  return { name: name.toLowerCase(), fileName: given.get('filename') ?? '' };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws MalformedPOSTRequest for what is not UTF-8 */
function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw malformedForm();
  }
}

function latin1Bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/**
 * Forms as browsers send them: `multipart/form-data` (RFC 7578), whose fields come before its file. The fields are
 * read whole, within bounds; the file is a stream.
 */

import { gather } from '../base/concurrency.ts';
import { fail, type Refusal } from '../base/errors.ts';
import { tap } from '../base/tap.ts';
import { decodeUtf8Strictly } from '../base/text/utf8.ts';
import { escapeText } from './formats/codec.ts';

/** Everything but the file (public API "POST Object"). */
const textBytesMax = 20 * 1024;
const fieldsMax = 100;

interface FormFile {
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
  let space = textBytesMax;
  const named = new Map<string, string>();
  for (const [field, value] of fields) {
    const pieces = value.split(fileVariable);
    space -= value.length + (pieces.length - 1) * name.length;
    if (space < 0) throw fail('MaxPostPreDataLengthExceededError');
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
  const input = parameters.filter((parameter) => /^boundary=/i.test(parameter));
  const boundary = /^[^=]*=("?)([0-9A-Za-z'()+_,\-./:=?]{1,70})\1$/.exec(input[0] ?? '')?.[2];
  if (boundary === undefined || input.length > 1) throw malformedForm();
  return boundary;
}

const lineBreak = latin1Bytes('\r\n');
const fileField = 'file';

type Reserve = (bytes: number) => void;

/**
 * @param reserve called with the number of bytes ahead of each piece of text that is held in memory; throws where they do not fit
 * @throws MalformedPOSTRequest, MaxPostPreDataLengthExceededError, InvalidArgument for a form without a file or with a field twice
 */
export async function readForm(
  body: AsyncIterable<Uint8Array>,
  boundary: string,
  reserve: Reserve = () => {},
): Promise<Form> {
  const cursor = new FormCursor(body, textBytesMax, reserve);
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
      fields.set(part.name, decodePart(await cursor.read(delimiter)));
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
      await cursor.skip(delimiter);
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
  const mark = decodePart(await cursor.take(2));
  if (mark === '--') return undefined;
  if (mark !== '\r\n') throw malformedForm();
  let disposition: string | undefined;
  for (;;) {
    const line = decodePart(await cursor.read(lineBreak));
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
  const input = new Map<string, string>();
  parameter.lastIndex = start;
  for (let at = start; at < value.length; at = parameter.lastIndex) {
    const [, name = '', quoted, bare = ''] = parameter.exec(value) ?? [];
    if (name === '' || input.has(name.toLowerCase())) throw malformedForm();
    input.set(name.toLowerCase(), quoted?.replace(/\\(["\\])/g, '$1') ?? bare);
  }
  const name = input.get('name');
  if (name === undefined || name === '') throw malformedForm();
  return { name: name.toLowerCase(), fileName: input.get('filename') ?? '' };
}

/** @throws MalformedPOSTRequest for what is not UTF-8 */
function decodePart(bytes: Uint8Array): string {
  try {
    return decodeUtf8Strictly(bytes);
  } catch {
    throw malformedForm();
  }
}

function latin1Bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

// Reads a body up to a delimiter, piece by piece and without copying: the bytes that it holds back equal the delimiter's.

const nothing = new Uint8Array();
const carriageReturn = 13;

/**
 * A delimiter begins with a carriage return and contains no other one, so after a failed match the next one can begin only at the
 * byte that failed: no byte is examined twice.
 */
export class FormCursor {
  readonly #source: AsyncIterator<Uint8Array>;
  #piece: Uint8Array = nothing;
  #at = 0;
  #budget: number;
  readonly #reserve: Reserve;

  /** @param budget bytes that may be read as text */
  constructor(body: AsyncIterable<Uint8Array>, budget: number, reserve: Reserve = () => {}) {
    this.#source = body[Symbol.asyncIterator]();
    this.#budget = budget;
    this.#reserve = reserve;
  }

  /** The budget anew, for what follows the file. */
  allow(budget: number): void {
    this.#budget = budget;
  }

  /**
   * The bytes before the delimiter, which is consumed. Arrays are views of the body's own.
   * @param matched bytes of the delimiter that count as read already
   */
  async *until(delimiter: Uint8Array, matched = 0): AsyncGenerator<Uint8Array> {
    // Matched bytes that are no longer in the piece.
    let pending = matched;
    let count = matched;
    for (;;) {
      if (this.#at === this.#piece.length && !(await this.#fill())) throw malformedForm();
      const piece = this.#piece;
      const from = this.#at;
      let at = from;
      while (at < piece.length && count < delimiter.length) {
        if (count === 0) {
          const next = piece.indexOf(carriageReturn, at);
          at = next < 0 ? piece.length : next + 1;
          count = next < 0 ? 0 : 1;
        } else if (piece[at] === delimiter[count]) {
          at += 1;
          count += 1;
        } else {
          if (pending > 0) yield delimiter.subarray(0, pending);
          pending = 0;
          count = 0;
        }
      }
      this.#at = at;
      const content = piece.subarray(from, Math.max(from, at - (count - pending)));
      if (content.length > 0) yield content;
      if (count === delimiter.length) return;
      pending = count;
    }
  }

  /** The bytes before the delimiter, as a copy. @throws MaxPostPreDataLengthExceededError, what `reserve` throws */
  async read(delimiter: Uint8Array, matched = 0): Promise<Uint8Array> {
    this.#spend(delimiter.length);
    this.#reserve(delimiter.length);
    const see = ({ length }: Uint8Array): void => {
      this.#spend(length);
      this.#reserve(length);
    };
    return gather(tap(this.until(delimiter, matched), { see }), {});
  }

  /** Passes over the bytes before the delimiter. @throws MaxPostPreDataLengthExceededError */
  async skip(delimiter: Uint8Array): Promise<void> {
    this.#spend(delimiter.length);
    for await (const { length } of this.until(delimiter)) this.#spend(length);
  }

  /** The next so many bytes. */
  async take(count: number): Promise<Uint8Array> {
    this.#spend(count);
    const taken = new Uint8Array(count);
    for (let i = 0; i < count; i += 1) {
      if (this.#at === this.#piece.length && !(await this.#fill())) throw malformedForm();
      taken[i] = this.#piece[this.#at] as number;
      this.#at += 1;
    }
    return taken;
  }

  /** Passes over everything to the end of the body. */
  async finish(): Promise<void> {
    do {
      this.#spend(this.#piece.length - this.#at);
    } while (await this.#fill());
  }

  /** Releases the source when the body is abandoned before its end. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }

  async #fill(): Promise<boolean> {
    this.#piece = nothing;
    this.#at = 0;
    while (this.#piece.length === 0) {
      const { done, value } = await this.#source.next();
      if (done === true) return false;
      this.#piece = value;
    }
    return true;
  }

  #spend(bytes: number): void {
    this.#budget -= bytes;
    if (this.#budget < 0) throw fail('MaxPostPreDataLengthExceededError');
  }
}

const malformedForm = (): Refusal => fail('MalformedPOSTRequest');

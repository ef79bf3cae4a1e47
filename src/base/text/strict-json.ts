/**
 * A strict JSON reader: a repeated name is refused with its place, and objects are maps, so that `__proto__` is a name like any other.
 * `JSON.parse` silently keeps the last of two members, so two readers could understand a document differently.
 */

export type JsonObject = ReadonlyMap<string, Json>;
export type Json = string | number | boolean | null | readonly Json[] | JsonObject;

export interface JsonRules {
  /** @param path of the place, such as `Statement[0].Action`; '' for the whole document */
  readonly refuse: (path: string, problem: string) => Error;
}

/** No grammar of this service nests deeper than six levels. */
const depthMax = 16;

const blank = /[ \t\r\n]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what JSON refuses in a string.
const stringToken = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
const otherToken = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

interface Cursor {
  readonly text: string;
  readonly rules: JsonRules;
  at: number;
}

/** The token at the cursor, or undefined; the cursor moves past it and the white space after it. */
function take(cursor: Cursor, token: RegExp): string | undefined {
  token.lastIndex = cursor.at;
  const found = token.exec(cursor.text)?.[0];
  if (found === undefined) return undefined;
  blank.lastIndex = token.lastIndex;
  blank.exec(cursor.text);
  cursor.at = blank.lastIndex;
  return found;
}

function takeMark(cursor: Cursor, mark: string): boolean {
  if (cursor.text[cursor.at] !== mark) return false;
  blank.lastIndex = cursor.at + 1;
  blank.exec(cursor.text);
  cursor.at = blank.lastIndex;
  return true;
}

const broken = ({ at, rules }: Cursor): Error => rules.refuse('', `is not valid JSON at character ${at + 1}`);
const quoted = (name: string): string => JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name);

function readString(cursor: Cursor): string {
  const token = take(cursor, stringToken);
  if (token === undefined) throw broken(cursor);
  const value: unknown = JSON.parse(token);
  return String(value);
}

function readObject(cursor: Cursor, path: string, depth: number): JsonObject {
  const object = new Map<string, Json>();
  if (takeMark(cursor, '}')) return object;
  do {
    const key = readString(cursor);
    if (object.has(key)) throw cursor.rules.refuse(path, `has ${quoted(key)} more than once`);
    if (!takeMark(cursor, ':')) throw broken(cursor);
    object.set(key, readValue(cursor, path === '' ? key : `${path}.${key}`, depth + 1));
  } while (takeMark(cursor, ','));
  if (!takeMark(cursor, '}')) throw broken(cursor);
  return object;
}

function readArray(cursor: Cursor, path: string, depth: number): readonly Json[] {
  const array: Json[] = [];
  if (takeMark(cursor, ']')) return array;
  do array.push(readValue(cursor, `${path}[${array.length}]`, depth + 1));
  while (takeMark(cursor, ','));
  if (!takeMark(cursor, ']')) throw broken(cursor);
  return array;
}

function readValue(cursor: Cursor, path: string, depth: number): Json {
  if (depth > depthMax) throw cursor.rules.refuse('', `is nested deeper than ${depthMax} levels`);
  if (takeMark(cursor, '{')) return readObject(cursor, path, depth);
  if (takeMark(cursor, '[')) return readArray(cursor, path, depth);
  if (cursor.text[cursor.at] === '"') return readString(cursor);
  const token = take(cursor, otherToken);
  if (token === undefined) throw broken(cursor);
  if (token === 'null') return null;
  return token === 'true' || token === 'false' ? token === 'true' : Number(token);
}

/** @throws the error that `rules` makes, for a text that is not JSON, repeats a name or is nested too deeply */
export function readStrictJson(text: string, rules: JsonRules): Json {
  const cursor = { text, rules, at: 0 };
  take(cursor, blank);
  const value = readValue(cursor, '', 0);
  if (cursor.at < text.length) throw broken(cursor);
  return value;
}

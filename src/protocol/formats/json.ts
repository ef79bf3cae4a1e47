/** Bodies of the operator API: one schema reads a JSON value strictly and infers its type. */

import { type Json, type JsonObject, readStrictJson } from '../../base/text/strict-json.ts';
import { fail } from '../../errors/refusal.ts';

/** @param at the place, such as `context.aws:SourceIp`; '' for the whole body */
export type JsonReader<T> = (value: Json | undefined, at: string) => T;
type ValueOf<R> = R extends JsonReader<infer T> ? T : never;

const malformed = (at: string, must: string) =>
  fail('MalformedJSON', `${at === '' ? 'The body' : at} ${must}.`);

export const jsonText =
  ({ max = 1024 }: { readonly max?: number } = {}): JsonReader<string> =>
  (value, at) => {
    if (typeof value !== 'string') throw malformed(at, 'must be a string');
    if (value.length > max) throw malformed(at, `must have at most ${max} characters`);
    return value;
  };

export const jsonOptional =
  <T>(inner: JsonReader<T>): JsonReader<T | undefined> =>
  (value, at) =>
    value === undefined ? undefined : inner(value, at);

export const jsonBoolean: JsonReader<boolean> = (value, at) => {
  if (typeof value !== 'boolean') throw malformed(at, 'must be true or false');
  return value;
};

export const jsonInteger =
  ({ min, max }: { readonly min: number; readonly max: number }): JsonReader<number> =>
  (value, at) => {
    if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max)
      throw malformed(at, `must be a whole number from ${min} to ${max}`);
    return value as number;
  };

export const jsonChoice =
  <const T extends readonly string[]>(choices: T): JsonReader<T[number]> =>
  (value, at) => {
    const chosen = choices.find((choice) => choice === value);
    if (chosen === undefined) throw malformed(at, `must be one of ${choices.join(', ')}`);
    return chosen;
  };

export const jsonList =
  <T>(
    inner: JsonReader<T>,
    { min = 0, max }: { readonly min?: number; readonly max: number },
  ): JsonReader<readonly T[]> =>
  (value, at) => {
    if (!Array.isArray(value)) throw malformed(at, 'must be a list');
    const given: readonly Json[] = value;
    if (given.length < min || given.length > max) throw malformed(at, `must have ${min} to ${max} members`);
    return given.map((each, index) => inner(each, `${at}[${index}]`));
  };

const namesMax = 100;

/** Values by name; any name is harmless in a map. */
export const jsonMap =
  <T>(
    inner: JsonReader<T>,
    { max = namesMax }: { readonly max?: number } = {},
  ): JsonReader<ReadonlyMap<string, T>> =>
  (value, at) => {
    const given = asObject(value, at);
    if (given.size > max) throw malformed(at, `must have at most ${max} names`);
    return new Map([...given].map(([name, each]) => [name, inner(each, `${at}.${name}`)]));
  };

export const jsonTexts: JsonReader<ReadonlyMap<string, string>> = jsonMap(jsonText());

export const jsonObject =
  <F extends Readonly<Record<string, JsonReader<unknown>>>>(
    fields: F,
  ): JsonReader<{ readonly [K in keyof F]: ValueOf<F[K]> }> =>
  (value, at) => {
    const given = asObject(value, at);
    for (const name of given.keys())
      if (!Object.hasOwn(fields, name))
        throw malformed(at, `has "${name}"; it takes ${Object.keys(fields).join(', ')}`);
    const read = Object.entries(fields).map(([name, reader]) => [
      name,
      reader(given.get(name), at === '' ? name : `${at}.${name}`),
    ]);
    // The cast: each name was read by the field of that name.
    return Object.fromEntries(read) as { readonly [K in keyof F]: ValueOf<F[K]> };
  };

function asObject(value: Json | undefined, at: string): JsonObject {
  if (value instanceof Map) return value as JsonObject;
  throw malformed(at, 'must be a JSON object');
}

/** Reads a whole body; an empty one counts as `{}`. @throws MalformedJSON naming the place */
export function readJson<T>(reader: JsonReader<T>, bytes: Uint8Array): T {
  if (bytes.length === 0) return reader(new Map(), '');
  return reader(readStrictJson(decodeUtf8(bytes), { refuse: malformed }), '');
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw malformed('', 'is not UTF-8');
  }
}

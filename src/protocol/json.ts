/** Bodies of the operator API: one schema reads a JSON value strictly and infers its type (design §4). */
import { fail } from '../errors/refusal.ts';
import { findRepeatedMember } from '../text/repeated-member.ts';

/** @param at the place, such as `context.aws:SourceIp`; '' for the whole body */
export type JsonReader<T> = (value: unknown, at: string) => T;
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

const namesMax = 100;

/** Values by name; any name is harmless in a map. */
export const jsonMap =
  <T>(
    inner: JsonReader<T>,
    { max = namesMax }: { readonly max?: number } = {},
  ): JsonReader<ReadonlyMap<string, T>> =>
  (value, at) => {
    const entries = Object.entries(objectOf(value, at));
    if (entries.length > max) throw malformed(at, `must have at most ${max} names`);
    return new Map(entries.map(([name, each]) => [name, inner(each, `${at}.${name}`)]));
  };

export const jsonTexts: JsonReader<ReadonlyMap<string, string>> = jsonMap(jsonText());

export const jsonObject =
  <F extends Readonly<Record<string, JsonReader<unknown>>>>(
    fields: F,
  ): JsonReader<{ readonly [K in keyof F]: ValueOf<F[K]> }> =>
  (value, at) => {
    const given = objectOf(value, at);
    for (const name of Object.keys(given))
      if (!Object.hasOwn(fields, name))
        throw malformed(at, `has "${name}"; it takes ${Object.keys(fields).join(', ')}`);
    const read = Object.entries(fields).map(([name, reader]) => {
      const found = Object.hasOwn(given, name) ? given[name] : undefined;
      return [name, reader(found, at === '' ? name : `${at}.${name}`)];
    });
    // The cast: each name was read by the field of that name.
    return Object.fromEntries(read) as { readonly [K in keyof F]: ValueOf<F[K]> };
  };

function objectOf(value: unknown, at: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw malformed(at, 'must be a JSON object');
  return value as Readonly<Record<string, unknown>>;
}

/** Reads a whole body; an empty one counts as `{}`. @throws MalformedJSON naming the place */
export function readJson<T>(reader: JsonReader<T>, bytes: Uint8Array): T {
  let value: unknown = {};
  let text = '{}';
  try {
    if (bytes.length > 0) text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the body, which may hold secrets.
    throw malformed('', 'is not valid JSON');
  }
  if (findRepeatedMember(text) !== undefined) throw malformed('', 'has a member more than once');
  return reader(value, '');
}

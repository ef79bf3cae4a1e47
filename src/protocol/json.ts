/** Bodies of the operator API: one schema reads a JSON value strictly and infers its type (design §4). */
import { fail } from '../errors/refusal.ts';

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

const namesMax = 100;

/** Texts by name; any name is harmless in a map. */
export const jsonTexts: JsonReader<ReadonlyMap<string, string>> = (value, at) => {
  const entries = Object.entries(objectOf(value, at));
  if (entries.length > namesMax) throw malformed(at, `must have at most ${namesMax} names`);
  return new Map(entries.map(([name, text]) => [name, jsonText()(text, `${at}.${name}`)]));
};

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
  try {
    if (bytes.length > 0) value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    // The parser's own message quotes the body, which may hold secrets.
    throw malformed('', 'is not valid JSON');
  }
  return reader(value, '');
}

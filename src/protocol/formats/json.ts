/**
 * Bodies of the operator API: one declaration reads a JSON value strictly, infers its type, and is written into the OpenAPI document as
 * a JSON Schema.
 */

import { fail } from '../../base/errors.ts';
import { parseBytes, sizePattern } from '../../base/text/byte-size.ts';
import { type Json, type JsonObject, readStrictJson } from '../../base/text/strict-json.ts';
import { decodeDocument } from '../../base/text/utf8.ts';
import type { JsonSchema } from './json-shape.ts';

export interface JsonReader<T> {
  /** @param at the place, such as `context.aws:SourceIp`; '' for the whole body */
  (value: Json | undefined, at: string): T;
  readonly schema: JsonSchema;
}

/** A field that may be absent. */
export interface JsonOptional<T> extends JsonReader<T | undefined> {
  readonly isOptional: true;
}

export type JsonFields = Readonly<Record<string, JsonReader<unknown>>>;
export type ValueOf<R> = R extends (value: Json | undefined, at: string) => infer T ? T : never;

type OptionalName<F> = { [K in keyof F]: F[K] extends { readonly isOptional: true } ? K : never }[keyof F];
export type ObjectOf<F> = { readonly [K in Exclude<keyof F, OptionalName<F>>]: ValueOf<F[K]> } & {
  readonly [K in OptionalName<F>]?: ValueOf<F[K]>;
};

/** A decoded value before it is written as JSON: maps are objects, and an optional field may be undefined, which is not written. */
export type Plain<T> =
  T extends ReadonlyMap<string, infer V>
    ? Readonly<Record<string, Plain<V>>>
    : T extends readonly (infer E)[]
      ? readonly Plain<E>[]
      : T extends object
        ? { readonly [K in keyof T]: Plain<T[K]> | (object extends Pick<T, K> ? undefined : never) }
        : T;

/** The field stands in `details` of the error body too. */
const malformed = (at: string, must: string) =>
  fail('MalformedJSON', {
    message: `${at === '' ? 'The body' : at} ${must}.`,
    ...(at === '' ? {} : { field: at }),
  });

const reader = <T>(schema: JsonSchema, read: (value: Json, at: string) => T): JsonReader<T> =>
  Object.assign(
    (value: Json | undefined, at: string): T => {
      if (value === undefined) throw malformed(at, 'is missing');
      return read(value, at);
    },
    { schema },
  );

export const isOptional = (field: JsonReader<unknown>): boolean => 'isOptional' in field;

interface TextRules {
  readonly max?: number;
  /** `must` continues the sentence "name must be …". */
  readonly pattern?: RegExp;
  readonly must?: string;
  readonly doc?: string;
}

export const jsonText = ({ max = 1024, pattern, must, doc }: TextRules = {}): JsonReader<string> =>
  reader(
    {
      type: 'string',
      maxLength: max,
      ...(pattern === undefined ? {} : { pattern: pattern.source }),
      ...describe(doc ?? must),
    },
    (value, at) => {
      if (typeof value !== 'string') throw malformed(at, 'must be a string');
      if (value.includes('\0') || !value.isWellFormed())
        throw malformed(at, 'must not have the character U+0000 or half of a surrogate pair');
      if (value.length > max) throw malformed(at, `must have at most ${max} characters`);
      if (pattern !== undefined && !pattern.test(value))
        throw malformed(at, `must be ${must ?? String(pattern)}`);
      return value;
    },
  );

const describe = (text: string | undefined) => (text === undefined ? {} : { description: text });

export const jsonOptional = <T>(inner: JsonReader<T>): JsonOptional<T> =>
  Object.assign(
    (value: Json | undefined, at: string): T | undefined =>
      value === undefined ? undefined : inner(value, at),
    { schema: inner.schema, isOptional: true as const },
  );

export const jsonBoolean: JsonReader<boolean> = reader({ type: 'boolean' }, (value, at) => {
  if (typeof value !== 'boolean') throw malformed(at, 'must be true or false');
  return value;
});

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly doc?: string;
}

export const jsonInteger = ({ min, max, doc }: Bounds): JsonReader<number> =>
  reader({ type: 'integer', minimum: min, maximum: max, ...describe(doc) }, (value, at) => {
    if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max)
      throw malformed(at, `must be a whole number from ${min} to ${max}`);
    return value as number;
  });

/** A number of bytes, or a size such as `10GiB`. */
export const jsonBytes = ({ min, max, doc }: Bounds): JsonReader<number> => {
  const must = 'a number of bytes, or a size such as 10GiB or 10GB';
  const schema = {
    type: ['integer', 'string'],
    minimum: min,
    maximum: max,
    pattern: sizePattern,
    ...describe(doc === undefined ? must : `${doc} It is ${must}.`),
  } as const;
  return reader(schema, (value, at) => {
    const bytes = typeof value === 'string' ? parseBytes(value) : value;
    if (!Number.isSafeInteger(bytes) || (bytes as number) < min || (bytes as number) > max)
      throw malformed(at, `must be ${must}, from ${min} to ${max}`);
    return bytes as number;
  });
};

/** A field that may be null. */
export const jsonNullable = <T>(inner: JsonReader<T>): JsonReader<T | null> => {
  const { type = [] } = inner.schema;
  const types = typeof type === 'string' ? [type] : type;
  return reader({ ...inner.schema, type: [...types, 'null'] }, (value, at) =>
    value === null ? null : inner(value, at),
  );
};

export const jsonCount: JsonReader<number> = jsonInteger({ min: 0, max: Number.MAX_SAFE_INTEGER });

/** Of replies: also fractions, and sums that may exceed the integers that a `number` holds exactly. */
export const jsonNumber: JsonReader<number> = reader({ type: 'number' }, (value, at) => {
  if (typeof value !== 'number') throw malformed(at, 'must be a number');
  return value;
});

/** Of replies: a value whose form is not part of the API, such as a position of a worker. */
export const jsonAny: JsonReader<unknown> = reader({}, (value) => value);

export const jsonChoice = <const T extends readonly string[]>(choices: T): JsonReader<T[number]> =>
  reader({ type: 'string', enum: choices }, (value, at) => {
    const chosen = choices.find((choice) => choice === value);
    if (chosen === undefined) throw malformed(at, `must be one of ${choices.join(', ')}`);
    return chosen;
  });

export const jsonList = <T>(
  inner: JsonReader<T>,
  { min = 0, max }: { readonly min?: number; readonly max: number },
): JsonReader<readonly T[]> =>
  reader(
    {
      type: 'array',
      items: inner.schema,
      ...(min === 0 ? {} : { minItems: min }),
      ...(max === Number.POSITIVE_INFINITY ? {} : { maxItems: max }),
    },
    (value, at) => {
      if (!Array.isArray(value)) throw malformed(at, 'must be a list');
      const input: readonly Json[] = value;
      if (input.length < min || input.length > max) throw malformed(at, `must have ${min} to ${max} members`);
      return input.map((each, index) => inner(each, `${at}[${index}]`));
    },
  );

/** Of replies: the handler bounds the list. */
export const jsonRows = <T>(inner: JsonReader<T>): JsonReader<readonly T[]> =>
  jsonList(inner, { max: Number.POSITIVE_INFINITY });

const namesMax = 100;

/** Values by name; any name is harmless in a map. */
export const jsonMap = <T>(
  inner: JsonReader<T>,
  { max = namesMax }: { readonly max?: number } = {},
): JsonReader<ReadonlyMap<string, T>> =>
  reader({ type: 'object', additionalProperties: inner.schema, maxProperties: max }, (value, at) => {
    const input = asObject(value, at);
    if (input.size > max) throw malformed(at, `must have at most ${max} names`);
    return new Map([...input].map(([name, each]) => [name, inner(each, `${at}.${name.slice(0, namesMax)}`)]));
  });

export const jsonTexts: JsonReader<ReadonlyMap<string, string>> = jsonMap(jsonText());

export const jsonObject = <F extends JsonFields>(fields: F): JsonReader<ObjectOf<F>> => {
  const names = Object.keys(fields);
  const takes = names.length === 0 ? 'it takes no fields' : `it takes ${names.join(', ')}`;
  return reader(objectSchema(fields), (value, at) => {
    const input = asObject(value, at);
    for (const name of input.keys())
      if (!Object.hasOwn(fields, name)) throw unknownField(at, name.slice(0, namesMax), takes);
    const read = Object.entries(fields).map(([name, field]) => [
      name,
      field(input.get(name), at === '' ? name : `${at}.${name}`),
    ]);
    // The cast: each name was read by the field of that name.
    return Object.fromEntries(read) as ObjectOf<F>;
  });
};

const unknownField = (at: string, name: string, takes: string) =>
  fail('MalformedJSON', {
    message: `${at === '' ? 'The body' : at} has "${name}"; ${takes}.`,
    field: at === '' ? name : `${at}.${name}`,
  });

const objectSchema = (fields: JsonFields): JsonSchema => {
  const required = Object.keys(fields).filter((name) => !isOptional(fields[name] as JsonReader<unknown>));
  return {
    type: 'object',
    properties: Object.fromEntries(Object.entries(fields).map(([name, { schema }]) => [name, schema])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
};

function asObject(value: Json, at: string): JsonObject {
  if (value instanceof Map) return value as JsonObject;
  throw malformed(at, 'must be a JSON object');
}

/** Reads a whole body; an empty one counts as `{}`. @throws MalformedJSON naming the place */
export function readJson<T>(schema: JsonReader<T>, bytes: Uint8Array): T {
  if (bytes.length === 0) return schema(new Map(), '');
  return schema(readStrictJson(decodeBody(bytes), { refuse: malformed }), '');
}

function decodeBody(bytes: Uint8Array): string {
  try {
    return decodeDocument(bytes);
  } catch {
    throw malformed('', 'is not UTF-8');
  }
}

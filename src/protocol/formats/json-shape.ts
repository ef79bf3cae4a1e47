/** The JSON of a value that an XML schema describes: how it is read, with every fault named, and its JSON Schema. */
import type { Json, JsonObject } from '../../base/text/strict-json.ts';

export interface JsonFault {
  /** Such as `Rule[0].Status`; '' for the whole document. */
  readonly path: string;
  readonly wrong: string;
  readonly right: string;
}
type ReportFault = (fault: JsonFault) => void;

export const describeFault = ({ path, wrong, right }: JsonFault): string =>
  `${path === '' ? 'The document' : path} ${wrong}: it ${right}.`;

export interface JsonShape<T> {
  readonly schema: JsonSchema;
  /** Whether a document without it is refused. */
  readonly isRequired: boolean;
  /** @returns undefined for an absent value, and after a fault */
  read(value: Json | undefined, at: string, report: ReportFault): T | undefined;
}

const quotedMax = 60;
/** A value as a fault shows it: the beginning of a long one. */
export function showJson(value: Json): string {
  if (value instanceof Map) return 'an object';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'string' && value.length > quotedMax
    ? JSON.stringify(`${value.slice(0, quotedMax)}…`)
    : JSON.stringify(value);
}

export type LeafSchema = Omit<JsonSchema, 'type'> & { readonly type: 'string' | 'integer' | 'boolean' };

const typeNames = {
  string: 'must be a string',
  integer: 'must be a whole number',
  boolean: 'must be true or false',
} as const;

/**
 * A text, a number or a boolean.
 * @param read reads what XML would hold in its place, so that both forms have the same value
 */
export const leafShape = <T>(
  schema: LeafSchema,
  read: (text: string, refuse: (right: string) => Error) => T,
): JsonShape<T> => ({
  schema,
  isRequired: true,
  read(value, at, report) {
    const right = typeNames[schema.type];
    if (value === undefined) return absent(at, right, report);
    if (typeof value !== (schema.type === 'integer' ? 'number' : schema.type)) {
      report({ path: at, wrong: `is ${showJson(value)}`, right });
      return undefined;
    }
    const text = String(value);
    if (text.includes('\0') || !text.isWellFormed()) {
      const characters = 'must not have the character U+0000 or half of a surrogate pair';
      report({ path: at, wrong: `is ${showJson(value)}`, right: characters });
      return undefined;
    }
    let fault: JsonFault | undefined;
    try {
      return read(text, (must) => {
        fault = { path: at, wrong: `is ${showJson(value)}`, right: must };
        return new Error(must);
      });
    } catch (cause) {
      if (fault === undefined) throw cause;
      report(fault);
      return undefined;
    }
  },
});

function absent(path: string, right: string, report: ReportFault): undefined {
  report({ path, wrong: 'is missing', right });
}

export const optionalShape = <T>(inner: JsonShape<T>): JsonShape<T | undefined> => ({
  ...inner,
  isRequired: false,
  read: (value, at, report) => (value === undefined ? undefined : inner.read(value, at, report)),
});

/** @param problem continues the name of the place, such as `must hold Days or Years` */
export const checkedShape = <T>(
  inner: JsonShape<T>,
  problem: (value: T) => string | undefined,
): JsonShape<T> => ({
  ...inner,
  read(value, at, report) {
    let isFaulty = false;
    const read = inner.read(value, at, (fault) => {
      isFaulty = true;
      report(fault);
    });
    // The value of a faulty part is incomplete.
    if (isFaulty || read === undefined) return read;
    const right = problem(read);
    if (right !== undefined)
      report({ path: at, wrong: `has ${Object.keys(read as object).join(', ') || 'nothing'}`, right });
    return read;
  },
});

export const listShape = <T>(
  inner: JsonShape<T>,
  { min = 0, max }: { readonly min?: number; readonly max: number },
): JsonShape<readonly T[]> => ({
  schema: {
    type: 'array',
    items: inner.schema,
    ...(min === 0 ? {} : { minItems: min }),
    ...(max === Number.MAX_SAFE_INTEGER ? {} : { maxItems: max }),
  },
  isRequired: min > 0,
  read(value = [], at, report) {
    const right =
      max === Number.MAX_SAFE_INTEGER
        ? `must be a list of ${min} or more`
        : `must be a list of ${min} to ${max}`;
    if (!Array.isArray(value)) {
      report({ path: at, wrong: `is ${showJson(value)}`, right });
      return undefined;
    }
    const members: readonly Json[] = value;
    if (members.length < min || members.length > max)
      report({ path: at, wrong: `has ${members.length} members`, right });
    return members
      .slice(0, max)
      .map((each, index) => inner.read(each, `${at}[${index}]`, report))
      .filter((each) => each !== undefined);
  },
});

/** @param isOpen unknown fields are ignored, as the elements of their names are in XML */
export function objectShape<T>(
  fields: Readonly<Record<string, JsonShape<unknown>>>,
  { isOpen }: { readonly isOpen: boolean },
): JsonShape<T> {
  const names = Object.keys(fields);
  const required = names.filter((name) => fields[name]?.isRequired);
  const known = names.length === 0 ? 'must be left out' : `must be one of ${names.join(', ')}`;
  return {
    schema: {
      type: 'object',
      properties: Object.fromEntries(names.map((name) => [name, fields[name]?.schema ?? {}])),
      ...(required.length === 0 ? {} : { required }),
      ...(isOpen ? {} : { additionalProperties: false }),
    },
    isRequired: true,
    read(value, at, report) {
      if (value === undefined) return absent(at, 'must be an object', report);
      if (!(value instanceof Map)) {
        report({ path: at, wrong: `is ${showJson(value)}`, right: 'must be an object' });
        return undefined;
      }
      const input = value as JsonObject;
      for (const name of input.keys())
        if (!isOpen && !Object.hasOwn(fields, name))
          report({
            path: below(at, name.slice(0, quotedMax)),
            wrong: 'is not known here',
            right: known,
          });
      const read: Record<string, unknown> = {};
      for (const [name, field] of Object.entries(fields)) {
        const part = field.read(input.get(name), below(at, name), report);
        if (part !== undefined) read[name] = part;
      }
      // The cast: each field was read by the shape of its name.
      return read as T;
    },
  };
}

const below = (at: string, name: string): string => (at === '' ? name : `${at}.${name}`);

// The part of JSON Schema (draft 2020-12) that the OpenAPI document uses.

type JsonSchemaType = 'string' | 'boolean' | 'integer' | 'number' | 'array' | 'object' | 'null';

export interface JsonSchema {
  readonly type?: JsonSchemaType | readonly JsonSchemaType[];
  readonly title?: string;
  readonly description?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | false;
  readonly maxProperties?: number;
}

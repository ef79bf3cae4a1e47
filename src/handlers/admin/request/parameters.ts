/** Reads the query of an operator's request. */
import type { Json } from '../../../base/text/strict-json.ts';
import { fail, Refusal } from '../../../errors/refusal.ts';
import type { JsonFields, JsonReader } from '../../../protocol/formats/json.ts';
import { isSigningParameter } from '../../../protocol/request/action-query.ts';
import type { Query } from '../../../protocol/request/wire.ts';

/** @throws InvalidArgument naming the parameter, also for one that the operation does not take, and for one with two values */
export function readQuery(fields: JsonFields, query: Query): Readonly<Record<string, unknown>> {
  const ambiguous = query.ambiguousName();
  if (ambiguous !== undefined) throw twice(ambiguous.slice(0, namesMax));
  const own = query.pairs.filter(([name]) => !isSigningParameter(name));
  for (const [name] of own) if (!Object.hasOwn(fields, name)) throw unknown(name, Object.keys(fields));
  return Object.fromEntries(
    Object.entries(fields).map(([name, reader]) => [name, readParameter(name, reader, query.get(name))]),
  );
}

function readParameter(name: string, reader: JsonReader<unknown>, given: string | undefined): unknown {
  try {
    return reader(given === undefined ? undefined : toJson(reader, given), name);
  } catch (cause) {
    if (cause instanceof Refusal) throw fail('InvalidArgument', cause.details);
    throw cause;
  }
}

/** A number or a boolean as the text of a query writes it; a name without a value is `true`. */
function toJson({ schema }: JsonReader<unknown>, text: string): Json {
  if (schema.type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (schema.type === 'boolean' && (text === '' || text === 'true')) return true;
  if (schema.type === 'boolean' && text === 'false') return false;
  return text;
}

const namesMax = 100;
const twice = (name: string) =>
  fail('InvalidArgument', {
    message: `The parameter "${name}" is given more than once, with different values.`,
    field: name,
  });
const unknown = (name: string, known: readonly string[]) =>
  fail('InvalidArgument', {
    message: `There is no parameter "${name.slice(0, namesMax)}"; ${known.length === 0 ? 'the operation takes none' : `known are ${known.join(', ')}`}.`,
    field: name.slice(0, namesMax),
  });

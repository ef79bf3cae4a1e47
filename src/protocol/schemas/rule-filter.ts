/** The Filter of a rule of lifecycle or replication: one condition, or several inside And (public API). */
import {
  atMostOne,
  checked,
  type ElementOptions,
  element,
  many,
  type Optional,
  optional,
  text,
  type Xml,
} from '../formats/codec.ts';

type Conditions = Readonly<Record<string, Optional<unknown>>>;

/** Two conditions or more, of which several may be tags, in a list (public API). */
const countProblem = (and: object): string | undefined =>
  Object.values(and)
    .flat()
    .filter((condition) => condition !== undefined).length < 2
    ? 'must hold two conditions or more'
    : undefined;

/** @param conditions beside prefix and tags; a filter and its And write them alike */
export function ruleFilter<T, C extends Conditions>(tag: Xml<T>, conditions: C, options?: ElementOptions) {
  const and = element({ Prefix: optional(text), Tag: many(tag, { max: 50 }), ...conditions }, options);
  const whole = { Prefix: optional(text), Tag: optional(tag), ...conditions };
  return atMostOne({ ...whole, And: optional(checked(and, countProblem)) }, options);
}

/** The Filter of a rule of lifecycle or replication: one condition, or several inside And (public API). */
import {
  atMostOne,
  checked,
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
export function ruleFilter<T, C extends Conditions>(tag: Xml<T>, conditions: C) {
  const and = element({ Prefix: optional(text), Tag: many(tag, { max: 50 }), ...conditions });
  return atMostOne({
    Prefix: optional(text),
    Tag: optional(tag),
    ...conditions,
    And: optional(checked(and, countProblem)),
  });
}

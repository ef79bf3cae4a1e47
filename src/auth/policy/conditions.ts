/**
 * The Condition element: operators, quantifiers and `IfExists`, with AWS's meaning of missing keys, several values and negation. All
 * operators and keys of a block must hold; the values of one key are alternatives (for a negated operator: none may match).
 *
 * An undetermined condition is decided against the caller: when a value of the request is unknown, not of the operator's type (an invalid
 * address) or too long to search, an Allow does not hold and a Deny holds. A variable without a value matches nothing, and does not make
 * a negated Allow hold either.
 */

import { malformed, quoted } from './json.ts';
import { type ConditionKey, findKey, findOtherServiceKey } from './keys.ts';
import { type Matcher, type Operator, operators } from './operators.ts';
import { type PolicyRequest, unknownFact } from './request.ts';

export interface Condition {
  readonly operator: string;
  readonly quantifier: Quantifier;
  readonly ifExists: boolean;
  readonly key: ConditionKey;
  /** In the form of the policy. */
  readonly values: readonly string[];
  holds(request: PolicyRequest): boolean;
}

type Quantifier = 'one' | 'all' | 'any';

export interface ConditionPlace {
  /** Such as `Statement[2].Condition.StringLike`. */
  readonly at: string;
  /** Whether variables are replaced: since version 2012-10-17. */
  readonly variables: boolean;
  readonly effect: 'Allow' | 'Deny';
  /** Whether the policy may name actions of any service, and their condition keys. */
  readonly anyService: boolean;
}

interface Named {
  readonly base: string;
  readonly quantifier: Quantifier;
  readonly ifExists: boolean;
}

/** @throws MalformedPolicy for an operator that the grammar does not have */
function readOperatorName(input: string, at: string): Named {
  const [, prefix, base = '', suffix] = /^(ForAllValues:|ForAnyValue:)?(\w+?)(IfExists)?$/.exec(input) ?? [];
  if (base !== 'Null' && !operators.has(base))
    throw malformed(at, `${quoted(input)} is no condition operator`);
  if (base === 'Null' && (prefix ?? suffix) !== undefined)
    throw malformed(at, 'Null takes neither ForAllValues:, ForAnyValue: nor IfExists');
  const quantifier = prefix === undefined ? 'one' : prefix === 'ForAllValues:' ? 'all' : 'any';
  return { base, quantifier, ifExists: suffix !== undefined };
}

function nullTest(
  key: ConditionKey,
  values: readonly string[],
  { at, whenUnknown }: { readonly at: string; readonly whenUnknown: boolean },
): Condition['holds'] {
  const expected = new Set(values);
  for (const value of expected)
    if (value !== 'true' && value !== 'false') throw malformed(at, `${quoted(value)} is not true or false`);
  return (request) => {
    const value = key.valueIn(request);
    if (value === unknownFact) return whenUnknown;
    return expected.has(String(value === undefined || (typeof value !== 'string' && value.length === 0)));
  };
}

/** Whether one value of the request passes the test; `whenUnknown` is the answer where that cannot be determined. */
function passes(
  matchers: readonly Matcher[],
  { negated, whenUnknown }: { readonly negated: boolean; readonly whenUnknown: boolean },
): (value: string, request: PolicyRequest) => boolean {
  return (value, request) => {
    let isUnknown = false;
    for (const matches of matchers) {
      const answer = matches(value, request);
      if (answer === true) return !negated;
      if (answer === undefined || (answer === 'unresolved' && negated)) isUnknown = true;
    }
    return isUnknown ? whenUnknown : negated;
  };
}

interface Test extends Named {
  readonly operator: Operator;
  readonly key: ConditionKey;
  readonly pass: (value: string, request: PolicyRequest) => boolean;
  readonly whenUnknown: boolean;
}

function quantified({ quantifier, ifExists, operator, key, pass, whenUnknown }: Test): Condition['holds'] {
  const whenMissing = quantifier === 'all' || ifExists || (quantifier === 'one' && operator.negated);
  // A key with one value may come in several spellings of it: with any quantifier one of them shall match, and for a negated operator none.
  const wantsEvery = key.multivalued ? quantifier === 'all' : operator.negated;
  return (request) => {
    const found = key.valueIn(request);
    if (typeof found === 'string') return pass(found, request);
    if (found === unknownFact) return whenUnknown;
    if (found === undefined || found.length === 0) return whenMissing;
    return wantsEvery
      ? found.every((value) => pass(value, request))
      : found.some((value) => pass(value, request));
  };
}

function checkTypes(named: Named, key: ConditionKey, at: string): void {
  const types = operators.get(named.base)?.types ?? 'all';
  if (types !== 'all' && !types.includes(key.type))
    throw malformed(at, `${named.base} cannot compare ${key.name}, which holds ${typeWords[key.type]}`);
  if (key.multivalued && named.quantifier === 'one' && named.base !== 'Null')
    throw malformed(
      at,
      `${key.name} has several values: put ForAllValues: or ForAnyValue: before the operator`,
    );
}

const typeWords: Readonly<Record<ConditionKey['type'], string>> = {
  text: 'text',
  number: 'a number',
  date: 'a date',
  epoch: 'seconds since the epoch',
  bool: 'true or false',
  ip: 'an address',
  arn: 'an ARN',
  any: 'text',
};

/**
 * Compiles one operator with one key and its values.
 * @throws MalformedPolicy naming the place of an operator, key or value that the engine cannot evaluate
 */
export function compileCondition(
  { operator: input, key: keyName, values }: { operator: string; key: string; values: readonly string[] },
  { at, variables, effect, anyService }: ConditionPlace,
): Condition {
  const named = readOperatorName(input, at);
  const key = findKey(keyName) ?? (anyService ? findOtherServiceKey(keyName, effect) : undefined);
  if (key === undefined)
    throw malformed(at, `${quoted(keyName)} is no condition key that this service knows`);
  checkTypes(named, key, at);
  const place = `${at}.${keyName}`;
  const shared = {
    operator: named.base,
    quantifier: named.quantifier,
    ifExists: named.ifExists,
    key,
    values,
  };
  const operator = operators.get(named.base);
  const whenUnknown = effect === 'Deny';
  if (operator === undefined) return { ...shared, holds: nullTest(key, values, { at: place, whenUnknown }) };
  const matchers = values.map((value) => operator.compile(value, { at: place, variables }));
  const pass = passes(matchers, { negated: operator.negated, whenUnknown });
  return { ...shared, holds: quantified({ ...named, operator, key, pass, whenUnknown }) };
}

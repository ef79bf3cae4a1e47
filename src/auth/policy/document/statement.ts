/** One statement of a policy: parsed, checked and compiled once, so that evaluating it costs comparisons only. */

import { type Condition, type ConditionPlace, compileCondition } from '../conditions/conditions.ts';
import type { PolicyRequest } from '../request.ts';
import { type Actions, compileActions } from './actions.ts';
import type { Json, JsonObject } from './json.ts';
import { malformed, quoted } from './malformed.ts';
import { findReach, isExempt, type Principals, parsePrincipals, type Reach } from './principals.ts';
import { compileResources, levelsOfResource, type Resources } from './resources.ts';

/** What the kind of policy requires of its statements. */
export interface StatementRules {
  readonly hasPrincipal: boolean;
  readonly hasResource: boolean;
  readonly mayNotPrincipal: boolean;
  readonly service: 's3' | 'sts' | undefined;
  /** Any text, or letters and digits only. */
  readonly freeSid: boolean;
  readonly variables: boolean;
  readonly bucket: string | undefined;
  readonly accessPoint: string | undefined;
}

export interface Statement {
  /** From 0. */
  readonly index: number;
  readonly sid: string | undefined;
  readonly effect: 'Allow' | 'Deny';
  /** Undefined in policies of an identity, which apply to the identity that they are attached to. */
  readonly principals: Principals | undefined;
  /** Accounts that Principal or NotPrincipal names by their id alone. */
  readonly bareNames: readonly string[];
  readonly conditions: readonly Condition[];
  /** @param action in lower case */
  matchesAction(action: string): boolean;
  matchesResource(request: PolicyRequest): boolean;
  reach(request: Pick<PolicyRequest, 'principal' | 'resourceAccount'>): Reach | undefined;
}

const elements = new Set(
  'Sid Effect Principal NotPrincipal Action NotAction Resource NotResource Condition'.split(' '),
);
const sidMax = 256;

const isObject = (value: Json | undefined): value is JsonObject => value instanceof Map;

/** A string, or a list of at least one. */
function readStrings(value: Json, at: string): readonly string[] {
  const list: readonly Json[] = Array.isArray(value) ? value : [value as Json];
  if (list.length === 0) throw malformed(at, 'must not be empty');
  return list.map((each) => {
    if (typeof each !== 'string') throw malformed(at, 'must be a string or a list of strings');
    return each;
  });
}

/** Values of conditions may also be numbers and booleans, which are read as their text. */
function readValues(value: Json, at: string): readonly string[] {
  const list: readonly Json[] = Array.isArray(value) ? value : [value as Json];
  if (list.length === 0) throw malformed(at, 'must not be empty');
  return list.map((each) => {
    if (typeof each !== 'string' && typeof each !== 'number' && typeof each !== 'boolean')
      throw malformed(at, 'must be a string, a number, a boolean or a list of them');
    return String(each);
  });
}

/** Reads whichever of the two elements is present. */
function readChoice(
  statement: JsonObject,
  name: string,
  { at, required, mayNot }: { readonly at: string; readonly required: boolean; readonly mayNot: boolean },
): { readonly value: Json; readonly at: string; readonly negated: boolean } | undefined {
  const plain = statement.get(name);
  const not = statement.get(`Not${name}`);
  if (plain !== undefined && not !== undefined) throw malformed(at, `has both ${name} and Not${name}`);
  const value = plain ?? not;
  const negated = not !== undefined;
  if (value === undefined) {
    if (required) throw malformed(at, `needs ${name}${mayNot ? ` or Not${name}` : ''}`);
    return undefined;
  }
  const place = `${at}.${negated ? 'Not' : ''}${name}`;
  if (!required || (negated && !mayNot)) throw malformed(place, 'has no place in this kind of policy');
  return { value, at: place, negated };
}

function readSid(value: Json | undefined, at: string, free: boolean): string | undefined {
  if (value === undefined) return undefined;
  const isFine =
    typeof value === 'string' && value.length <= sidMax && (free || /^[A-Za-z0-9]*$/.test(value));
  if (!isFine)
    throw malformed(
      `${at}.Sid`,
      free ? `must be text of at most ${sidMax} characters` : 'must be letters and digits',
    );
  return value === '' ? undefined : value;
}

function readConditions(value: Json | undefined, { at, ...place }: ConditionPlace): readonly Condition[] {
  if (value === undefined) return [];
  if (!isObject(value)) throw malformed(at, 'must be an object of operators');
  return [...value].flatMap(([operator, block]) => {
    const within = `${at}.${operator}`;
    if (!isObject(block)) throw malformed(within, 'must be an object of condition keys');
    if (block.size === 0) throw malformed(within, 'names no condition key');
    const seen = new Set<string>();
    return [...block].map(([key, values]) => {
      if (seen.has(key.toLowerCase())) throw malformed(within, `has ${quoted(key)} more than once`);
      seen.add(key.toLowerCase());
      const listed = readValues(values, `${within}.${key}`);
      return compileCondition({ operator, key, values: listed }, { ...place, at: within });
    });
  });
}

type Chosen<T> = (T & { readonly negated: boolean }) | undefined;

function readPrincipals(
  statement: JsonObject,
  at: string,
  rules: StatementRules,
): Chosen<{ readonly of: Principals }> {
  const { hasPrincipal: required, mayNotPrincipal: mayNot } = rules;
  const found = readChoice(statement, 'Principal', { at, required, mayNot });
  if (found === undefined) return undefined;
  // NotPrincipal in an Allow includes anonymous callers; AWS refuses it too.
  if (found.negated && statement.get('Effect') === 'Allow')
    throw malformed(found.at, 'must stand in a statement that denies');
  return { of: parsePrincipals(found.value, found.at), negated: found.negated };
}

function readActions(
  statement: JsonObject,
  at: string,
  { service }: StatementRules,
): Actions & { readonly negated: boolean; readonly each: ReturnType<typeof compileActions>['each'] } {
  const found = readChoice(statement, 'Action', { at, required: true, mayNot: true });
  if (found === undefined) throw malformed(at, 'needs Action or NotAction');
  const actions = compileActions(readStrings(found.value, found.at), { at: found.at, service });
  return { ...actions, negated: found.negated };
}

function readResources(
  statement: JsonObject,
  at: string,
  rules: StatementRules,
): Chosen<Resources & { readonly list: readonly string[] }> {
  const found = readChoice(statement, 'Resource', { at, required: rules.hasResource, mayNot: true });
  if (found === undefined) return undefined;
  const list = readStrings(found.value, found.at);
  const { variables, bucket, accessPoint } = rules;
  const compiled = compileResources(list, {
    at: found.at,
    variables,
    // NotResource may name resources outside of the bucket; it then excludes nothing.
    bucket: found.negated ? undefined : bucket,
    accessPoint: found.negated ? undefined : accessPoint,
  });
  return { ...compiled, list, negated: found.negated };
}

/** Bucket actions on object ARNs alone never match, though their author believes that they allow something. */
function checkApplies(
  actions: ReturnType<typeof readActions>,
  resources: ReturnType<typeof readResources>,
  at: string,
): void {
  if (actions.negated || resources === undefined || resources.negated) return;
  const levels = new Set(resources.list.flatMap(levelsOfResource));
  for (const { given, levels: wanted } of actions.each)
    if (![...wanted].some((level) => levels.has(level)))
      throw malformed(at, `${quoted(given)} does not apply to any of its resources`);
}

/** @throws MalformedPolicy */
export function compileStatement(value: Json, at: string, rules: StatementRules): Omit<Statement, 'index'> {
  if (!isObject(value)) throw malformed(at, 'must be an object');
  for (const name of value.keys())
    if (!elements.has(name)) throw malformed(at, `${quoted(name)} is no element of a statement`);
  const effect = value.get('Effect');
  if (effect !== 'Allow' && effect !== 'Deny') throw malformed(`${at}.Effect`, 'must be "Allow" or "Deny"');
  const sid = readSid(value.get('Sid'), at, rules.freeSid);
  const principals = readPrincipals(value, at, rules);
  const actions = readActions(value, at, rules);
  const resources = readResources(value, at, rules);
  if (rules.bucket !== undefined) checkApplies(actions, resources, at);
  const conditions = readConditions(value.get('Condition'), {
    at: `${at}.Condition`,
    variables: rules.variables,
    effect,
    anyService: rules.service === undefined,
  });
  return {
    sid,
    effect,
    bareNames: [...(principals?.of.bare ?? [])],
    principals: principals?.negated === true ? undefined : principals?.of,
    conditions,
    matchesAction: (action) => actions.match(action) !== actions.negated,
    matchesResource: (request) => {
      if (resources === undefined) return true;
      const answer = resources.match(request);
      // An unresolved variable matches nothing, and does not widen an Allow with NotResource.
      if (answer === 'unresolved') return resources.negated && effect === 'Deny';
      return answer !== resources.negated;
    },
    reach: ({ principal, resourceAccount }) => {
      if (principals === undefined) return 'direct';
      if (!principals.negated) return findReach(principals.of, principal, resourceAccount);
      return isExempt(principals.of, principal, resourceAccount) ? undefined : 'direct';
    },
  };
}

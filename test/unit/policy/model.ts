/**
 * A slow and simple interpreter of policies, written from the IAM documentation: no compilation, and no code of the engine. It reads the
 * document as `JSON.parse` returns it.
 */
import type { PolicyRequest, Principal } from '../../../src/auth/policy/request.ts';
import { type ScalarAnswer, scalars } from './scalar-model.ts';

type Strings = string | readonly string[];
export interface ModelStatement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Principal?: '*' | Readonly<Record<string, Strings>>;
  readonly NotPrincipal?: '*' | Readonly<Record<string, Strings>>;
  readonly Action?: Strings;
  readonly NotAction?: Strings;
  readonly Resource?: Strings;
  readonly NotResource?: Strings;
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, Strings>>>>;
}

const list = (value: Strings): readonly string[] => (typeof value === 'string' ? [value] : value);

/** A piece of a pattern for a matcher that backtracks. A quoted piece (an array) matches only itself. */
type Piece = string | readonly [string];
function glob(pattern: readonly Piece[], text: string): boolean {
  const [first, ...rest] = pattern;
  if (first === undefined) return text === '';
  if (typeof first !== 'string') return text.startsWith(first[0]) && glob(rest, text.slice(first[0].length));
  if (first === '*') return glob(rest, text) || (text !== '' && glob(pattern, text.slice(1)));
  if (text === '') return false;
  return (first === '?' || first === text[0]) && glob(rest, text.slice(1));
}

const facts: Readonly<Record<string, (principal: Principal) => string | undefined>> = {
  'aws:username': ({ username }) => username,
  'aws:userid': ({ userid }) => userid || undefined,
};
function valuesOf(request: PolicyRequest, key: string): readonly string[] {
  const own = facts[key];
  const found = own === undefined ? request.context.lookup(key) : own(request.principal);
  // The model's requests are about facts that are known or absent.
  return found === undefined || typeof found === 'symbol' ? [] : list(found);
}

/** The pieces of a text with its variables replaced; undefined when a variable has no value. */
function pieces(text: string, request: PolicyRequest): readonly Piece[] | undefined {
  const result: Piece[] = [];
  for (let rest = text; rest !== ''; ) {
    const variable = /^\$\{([^}]+)\}/.exec(rest);
    if (variable === null) {
      result.push(rest[0] ?? '');
      rest = rest.slice(1);
      continue;
    }
    const name = variable[1] ?? '';
    const value = name === '*' || name === '?' || name === '$' ? name : valuesOf(request, name)[0];
    if (value === undefined) return undefined;
    result.push([value]);
    rest = rest.slice(variable[0].length);
  }
  return result;
}

/** Splits a pattern at its own colons, not at those of variables; the sixth segment contains the rest. */
function segments(pattern: readonly Piece[]): readonly (readonly Piece[])[] {
  const result: Piece[][] = [[]];
  for (const piece of pattern) {
    if (piece === ':' && result.length < 6) result.push([]);
    else result.at(-1)?.push(piece);
  }
  return result;
}
function matchesArn(pattern: readonly Piece[], arn: string): boolean {
  const parts = arn.split(':');
  const six = [...parts.slice(0, 5), parts.slice(5).join(':')];
  return segments(pattern).every((segment, index) => glob(segment, six[index] ?? ''));
}

/** Undefined when a variable in the policy's value has no value in this request. */
type Compare = (wanted: string, value: string, request: PolicyRequest) => ScalarAnswer | undefined;
const joined = (found: readonly Piece[]): string =>
  found.map((piece) => (typeof piece === 'string' ? piece : piece[0])).join('');
const arnLike: Compare = (wanted, value, request) => {
  const found = pieces(wanted, request);
  return found && matchesArn(found, value);
};
const compare: Readonly<Record<string, Compare>> = {
  ...scalars,
  StringEquals: (wanted, value, request) => {
    const found = pieces(wanted, request);
    return found && joined(found) === value;
  },
  StringEqualsIgnoreCase: (wanted, value, request) => {
    const found = pieces(wanted, request);
    return found && joined(found).toLowerCase() === value.toLowerCase();
  },
  StringLike: (wanted, value, request) => {
    const found = pieces(wanted, request);
    return found && glob(found, value);
  },
  ArnLike: arnLike,
  ArnEquals: arnLike,
};
const negations: Readonly<Record<string, string>> = {
  StringNotEquals: 'StringEquals',
  StringNotEqualsIgnoreCase: 'StringEqualsIgnoreCase',
  StringNotLike: 'StringLike',
  NumericNotEquals: 'NumericEquals',
  DateNotEquals: 'DateEquals',
  NotIpAddress: 'IpAddress',
  ArnNotLike: 'ArnLike',
  ArnNotEquals: 'ArnEquals',
};

function passes(
  operator: string,
  wanted: readonly string[],
  value: string,
  { effect, request }: { effect: string; request: PolicyRequest },
): boolean {
  const positive = negations[operator];
  const answers = wanted.map((each) => (compare[positive ?? operator] as Compare)(each, value, request));
  if (answers.includes(true)) return positive === undefined;
  // A value that cannot be read decides against the caller.
  if (answers.includes('unreadable')) return effect === 'Deny';
  if (positive === undefined) return false;
  return answers.includes(undefined) ? effect === 'Deny' : true;
}

function conditionHolds(
  name: string,
  [key, wanted]: readonly [string, Strings],
  statement: ModelStatement,
  request: PolicyRequest,
): boolean {
  const given = valuesOf(request, key);
  if (name === 'Null') return list(wanted).includes(String(given.length === 0));
  const set = name.includes(':') ? (name.split(':')[0] ?? '') : '';
  const ifExists = name.endsWith('IfExists');
  const operator = name.replace(/^.*:/, '').replace(/IfExists$/, '');
  const isNegated = operator in negations;
  if (given.length === 0) {
    if (set === 'ForAllValues' || ifExists) return true;
    return set === '' && isNegated;
  }
  const passing = given.filter((value) =>
    passes(operator, list(wanted), value, { effect: statement.Effect, request }),
  );
  // Several values of any other key are spellings of one.
  const needsAll = key === 'aws:TagKeys' ? set === 'ForAllValues' : isNegated;
  return needsAll ? passing.length === given.length : passing.length > 0;
}

type Reach = 'direct' | 'account' | undefined;
function reach(named: '*' | Readonly<Record<string, Strings>>, principal: Principal): Reach {
  if (named === '*') return 'direct';
  const aws = list(named['AWS'] ?? []);
  if (aws.includes('*')) return 'direct';
  if (principal.arn !== '' && aws.includes(principal.arn)) return 'direct';
  if (principal.sessionArn !== undefined && aws.includes(principal.sessionArn)) return 'direct';
  if (principal.service !== undefined && list(named['Service'] ?? []).includes(principal.service))
    return 'direct';
  if (principal.account === '') return undefined;
  const accounts = [...aws, ...list(named['CanonicalUser'] ?? [])].map(
    (each) => /^arn:aws:iam::(.*):root$/.exec(each)?.[1] ?? each,
  );
  if (!accounts.includes(principal.account)) return undefined;
  return principal.kind === 'root' ? 'direct' : 'account';
}

function reachOf({ Principal: named, NotPrincipal: not }: ModelStatement, principal: Principal): Reach {
  if (named !== undefined) return reach(named, principal);
  if (not !== undefined) return reach(not, principal) === 'direct' ? undefined : 'direct';
  return 'direct';
}

function resourceMatches({ Effect, Resource, NotResource }: ModelStatement, request: PolicyRequest): boolean {
  const answers = list(Resource ?? NotResource ?? '*').map((each) => {
    if (each === '*') return true;
    const found = pieces(each, request);
    return found && matchesArn(found, request.resource);
  });
  if (NotResource === undefined) return answers.includes(true);
  if (answers.includes(true)) return false;
  return answers.includes(undefined) ? Effect === 'Deny' : true;
}

function applies(statement: ModelStatement, request: PolicyRequest): boolean {
  const { Action, NotAction, Condition = {} } = statement;
  const named = list(Action ?? NotAction ?? []).some((each) =>
    glob([...each.toLowerCase()], request.action.toLowerCase()),
  );
  if (named !== (Action !== undefined)) return false;
  if (!resourceMatches(statement, request)) return false;
  if (reachOf(statement, request.principal) === undefined) return false;
  return Object.entries(Condition).every(([operator, block]) =>
    Object.entries(block).every((pair) => conditionHolds(operator, pair, statement, request)),
  );
}

/** `Allow` comes with its reach. */
export function model(
  request: PolicyRequest,
  documents: readonly (readonly ModelStatement[])[],
): 'Deny' | 'Allow direct' | 'Allow account' | 'None' {
  const applying = documents.flat().filter((statement) => applies(statement, request));
  if (applying.some(({ Effect }) => Effect === 'Deny')) return 'Deny';
  if (applying.length === 0) return 'None';
  return applying.some((statement) => reachOf(statement, request.principal) === 'direct')
    ? 'Allow direct'
    : 'Allow account';
}

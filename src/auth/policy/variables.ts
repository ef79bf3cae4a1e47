/**
 * Texts of a policy that may contain variables and wildcards, cut into tokens: `home/${aws:username}/*`. The value of a variable is
 * inserted as plain text, and never read as a wildcard or as the colon of an ARN.
 */

import { keptValueMax } from './compiled-size.ts';
import { malformed, quoted } from './json.ts';
import { type ConditionKey, findKey } from './keys.ts';
import { type PolicyRequest, unknownFact } from './request.ts';

/** `any` is `*`, `one` is `?`. */
export type Token =
  | { readonly is: 'text'; readonly text: string }
  | { readonly is: 'any' }
  | { readonly is: 'one' }
  | { readonly is: 'variable'; readonly key: ConditionKey; readonly fallback: string | undefined };
export type Plain = Exclude<Token, { readonly is: 'variable' }>;

export interface TemplateOptions {
  /** The place, for refusals. */
  readonly at: string;
  /** Version 2008-10-17 has no variables: `${aws:username}` is a literal text. */
  readonly variables: boolean;
  readonly wildcards: boolean;
}

const variablePattern = /\$\{([^{}]*)\}/y;
const withFallback = /^\s*([^\s,']+)\s*(?:,\s*'([^']*)'\s*)?$/;

function readVariable(inside: string, at: string): Token {
  if (inside === '*' || inside === '?' || inside === '$') return { is: 'text', text: inside };
  const [, name = '', fallback] = withFallback.exec(inside) ?? [];
  const key = findKey(name);
  if (key === undefined) throw malformed(at, `\${${inside}} is no policy variable`);
  if (key.multivalued) throw malformed(at, `\${${inside}} has several values and cannot be a variable`);
  return { is: 'variable', key, fallback };
}

/** The next place where a wildcard or variable may begin. The text before it is cut out in one piece, which takes less memory. */
function plainEnd(text: string, from: number): number {
  let end = from;
  while (end < text.length && !'*?$'.includes(text[end] as string)) end += 1;
  return end;
}

/** @throws MalformedPolicy for a variable that does not exist */
export function parseTemplate(text: string, { at, variables, wildcards }: TemplateOptions): readonly Token[] {
  const tokens: Token[] = [];
  let literal = '';
  const push = (token: Token): void => {
    if (token.is === 'text') {
      literal += token.text;
      return;
    }
    if (literal !== '') tokens.push({ is: 'text', text: literal });
    literal = '';
    // `**` means the same as `*`.
    if (token.is !== 'any' || tokens.at(-1)?.is !== 'any') tokens.push(token);
  };
  for (let index = 0; index < text.length; ) {
    variablePattern.lastIndex = index;
    const found = variables && text[index] === '$' ? variablePattern.exec(text) : null;
    const letter = text[index] ?? '';
    if (found !== null) push(readVariable(found[1] ?? '', at));
    else if (variables && text.startsWith('${', index))
      throw malformed(at, `${quoted(text)} has a variable that does not end`);
    else if (wildcards && letter === '*') push({ is: 'any' });
    else if (wildcards && letter === '?') push({ is: 'one' });
    else {
      const end = plainEnd(text, index + 1);
      push({ is: 'text', text: text.slice(index, end) });
      index = end;
      continue;
    }
    index += found === null ? 1 : found[0].length;
  }
  if (literal !== '') tokens.push({ is: 'text', text: literal });
  return tokens;
}

type Variable = Extract<Token, { readonly is: 'variable' }>;

function valueFor({ key, fallback }: Variable, request: PolicyRequest): string | undefined {
  const found = key.valueIn(request);
  if (typeof found === 'string') return found;
  // Not the default, because the request has a value.
  if (found === unknownFact) return undefined;
  return found?.length === 1 ? found[0] : fallback;
}

export const isPlain = (tokens: readonly Token[]): tokens is readonly Plain[] =>
  tokens.every((token) => token.is !== 'variable');

/** Puts values in the places of variables, in their order. */
export type Fill = (tokens: readonly Token[]) => readonly Plain[];

/**
 * Applies `compile` to a text for each request. The last result is cached where its values are short, because requests of one caller
 * arrive in sequence and their variables seldom change. Undefined when the request lacks a variable without a default: such a text
 * matches nothing.
 */
export function perRequest<T>(
  tokens: readonly Token[],
  compile: (fill: Fill) => T,
): (request: PolicyRequest) => T | undefined {
  const variables = tokens.filter((token) => token.is === 'variable');
  let last: { readonly values: readonly string[]; readonly compiled: T } | undefined;
  return (request) => {
    const values: string[] = [];
    for (const variable of variables) {
      const value = valueFor(variable, request);
      if (value === undefined) return undefined;
      values.push(value);
    }
    if (last === undefined || values.some((value, index) => value !== last?.values[index])) {
      let next = 0;
      const put = (token: Token): Plain =>
        token.is === 'variable' ? { is: 'text', text: values[next++] ?? '' } : token;
      const compiled = compile((given) => given.map(put));
      if (values.some((value) => value.length > keptValueMax)) return compiled;
      last = { values, compiled };
    }
    return last.compiled;
  };
}

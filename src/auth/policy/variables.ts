/**
 * Texts of a policy that may hold variables and wildcards, cut into tokens: `home/${aws:username}/*`. What a
 * variable stands for is put in as plain text, never read as a wildcard or as the colon of an ARN.
 */
import { type ConditionKey, findKey } from './keys.ts';
import { malformed, shown } from './malformed.ts';
import type { PolicyRequest } from './request.ts';

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
  /** Version 2008-10-17 knows no variables: `${aws:username}` is those very characters. */
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
    // `**` means what `*` means.
    if (token.is !== 'any' || tokens.at(-1)?.is !== 'any') tokens.push(token);
  };
  for (let index = 0; index < text.length; ) {
    variablePattern.lastIndex = index;
    const found = variables && text[index] === '$' ? variablePattern.exec(text) : null;
    const letter = text[index] ?? '';
    if (found !== null) push(readVariable(found[1] ?? '', at));
    else if (variables && text.startsWith('${', index))
      throw malformed(at, `${shown(text)} has a variable that does not end`);
    else if (wildcards && letter === '*') push({ is: 'any' });
    else if (wildcards && letter === '?') push({ is: 'one' });
    else push({ is: 'text', text: letter });
    index += found === null ? 1 : found[0].length;
  }
  if (literal !== '') tokens.push({ is: 'text', text: literal });
  return tokens;
}

/** Undefined when the request lacks a variable that has no default: such a text matches nothing. */
export function resolve(tokens: readonly Token[], request: PolicyRequest): readonly Plain[] | undefined {
  const plain: Plain[] = [];
  for (const token of tokens) {
    if (token.is !== 'variable') {
      plain.push(token);
      continue;
    }
    const found = token.key.valueIn(request);
    const value = (typeof found === 'object' && found.length === 1 ? found[0] : found) ?? token.fallback;
    if (typeof value !== 'string') {
      if (token.fallback === undefined) return undefined;
      plain.push({ is: 'text', text: token.fallback });
    } else plain.push({ is: 'text', text: value });
  }
  return plain;
}

export const isPlain = (tokens: readonly Token[]): tokens is readonly Plain[] =>
  tokens.every((token) => token.is !== 'variable');

/**
 * Texts of a policy that may contain variables and wildcards, cut into tokens: `home/${aws:username}/*`. The value of a variable is
 * inserted as plain text, and never read as a wildcard or as the colon of an ARN.
 */
import { type Json, malformed, quoted } from './json.ts';
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
      const compiled = compile((input) => input.map(put));
      if (values.some((value) => value.length > cachedValueMax)) return compiled;
      last = { values, compiled };
    }
    return last.compiled;
  };
}

// The cost of a compiled policy: memory while it is cached, and time for each request that it judges. It is estimated from the document,
// without compiling it. The estimate is an upper bound that includes the masks of globs and the cached values of variables
// (`test/unit/policy/compiled-size.test.ts` measures it).

export interface CompiledSize {
  /**
   * Patterns with characters between two wildcards `*`: each may read a value of the request to its end. A pattern with `?`
   * and a variable in that part counts as several, because it is compiled again for each value of the variable.
   */
  readonly patterns: number;
  readonly bytes: number;
}

/** The limit for PUT. A text within its own limit (20 KiB) can take 75 times its size in memory. */
export const compiledSizeMax: CompiledSize = { patterns: 256, bytes: 1024 * 1024 };

/** A variable's value is kept with the policy up to this length; a longer one is compiled for each request. */
const cachedValueMax = 256;

const statementBytes = 8 * 1024;
const textBytes = 700;
/** The six segments of an ARN pattern. */
const arnBytes = 2_000;
const variableBytes = 500;
/** Runs this short without `?` need no masks. */
const wordBits = 32;
const maskBytes = 48;
const runBytes = 500;
const variableWeight = 8;

function runSize(run: string, variables: number): number {
  const length = run.length + variables * cachedValueMax;
  if (length <= wordBits && !run.includes('?')) return 2 * length + runBytes / 5;
  // Borders, or masks of each character and a flag for each place.
  if (!run.includes('?')) return 4 * length + runBytes;
  const characters = new Set(run).size + (variables === 0 ? 0 : 64);
  return runBytes + 10 * length + (characters + 1) * (maskBytes + 4 * Math.ceil(length / wordBits));
}

function sizeOfText(text: string): CompiledSize {
  const runs = text.split('*');
  const between = runs.slice(1, -1).filter((run) => run !== '');
  const isHeavy = between.some((run) => run.includes('?') && run.includes('${'));
  let bytes = textBytes + 2 * text.length + (text.includes(':') ? arnBytes : 0);
  for (const run of runs) {
    const variables = run.split('${').length - 1;
    bytes += runSize(run, variables) + variables * variableBytes;
  }
  return { patterns: between.length === 0 ? 0 : isHeavy ? variableWeight : 1, bytes };
}

const sum = (sizes: readonly CompiledSize[], bytes = 0): CompiledSize => ({
  patterns: sizes.reduce((total, size) => total + size.patterns, 0),
  bytes: sizes.reduce((total, size) => total + size.bytes, bytes),
});

/** The recursion is bounded, because `readStrictJson` has refused JSON that nests too deeply. */
function sizeOfJson(value: Json): CompiledSize {
  if (typeof value === 'string') return sizeOfText(value);
  if (Array.isArray(value)) return sum((value as readonly Json[]).map(sizeOfJson));
  if (value instanceof Map)
    return sum([...(value as ReadonlyMap<string, Json>).values()].map(sizeOfJson), 200);
  return { patterns: 0, bytes: textBytes };
}

export function sizeOfStatements(statements: readonly Json[]): CompiledSize {
  return sum(statements.map(sizeOfJson), statements.length * statementBytes);
}

/** @throws MalformedPolicy, with the limit in its message */
export function checkCompiledSize({ patterns, bytes }: CompiledSize): void {
  if (patterns > compiledSizeMax.patterns)
    throw malformed(
      '',
      `has ${patterns} patterns with text between two wildcards; at most ${compiledSizeMax.patterns} are allowed`,
    );
  if (bytes > compiledSizeMax.bytes)
    throw malformed(
      '',
      `takes about ${bytes} bytes of memory once it is compiled; at most ${compiledSizeMax.bytes} are allowed. Write fewer statements and values`,
    );
}

/** Finds every regular expression of the sources: literals by their syntax, the others when they are constructed. */
import { readFileSync } from 'node:fs';
import { parseAst } from 'rolldown/parseAst';

export interface Pattern {
  readonly source: string;
  readonly flags: string;
  /** `path:line`, or the path where a constructor made it. */
  readonly at: string;
}

type Syntax = Readonly<Record<string, unknown>>;

/** Every node of a syntax tree. */
function* nodesOf(value: unknown): Generator<Syntax> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield value as Syntax;
  for (const inner of Object.values(value)) yield* nodesOf(inner);
}

const parse = (code: string): unknown => parseAst(code, { lang: 'ts' });

export function literalPatterns(path: string, code = readFileSync(path, 'utf8')): Pattern[] {
  const found: Pattern[] = [];
  for (const { regex, start } of nodesOf(parse(code))) {
    if (regex === undefined || regex === null) continue;
    const { pattern, flags } = regex as { readonly pattern: string; readonly flags: string };
    const line = code.slice(0, start as number).split('\n').length;
    found.push({ source: pattern, flags, at: `${path}:${line}` });
  }
  return found;
}

/** Whether the file constructs regular expressions from texts. */
export function constructsPatterns(path: string): boolean {
  const code = readFileSync(path, 'utf8');
  if (!code.includes('RegExp(')) return false;
  for (const { type, callee } of nodesOf(parse(code))) {
    const isCall = type === 'NewExpression' || type === 'CallExpression';
    if (isCall && (callee as Syntax)['name'] === 'RegExp') return true;
  }
  return false;
}

/** Records the patterns that `work` constructs with `new RegExp`. */
export async function constructedPatterns(at: string, work: () => Promise<unknown>): Promise<Pattern[]> {
  const found: Pattern[] = [];
  const original = globalThis.RegExp;
  globalThis.RegExp = new Proxy(original, {
    construct(target, [source, flags]: [string | RegExp, string?]) {
      const made = new target(source, flags);
      found.push({ source: made.source, flags: made.flags, at });
      return made;
    },
  });
  try {
    await work();
  } finally {
    globalThis.RegExp = original;
  }
  return found;
}

/**
 * The cost of a compiled policy: memory while it is cached, and time for each request that it judges. It is estimated from the
 * document, without compiling it. The estimate is an upper bound that includes the masks of globs and the cached values of variables
 * (`test/unit/policy/compiled-size.test.ts` measures it).
 */
import { type Json, malformed } from './json.ts';

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
export const keptValueMax = 256;

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
  const length = run.length + variables * keptValueMax;
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

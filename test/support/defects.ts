/** Log lines that only a defect of the gateway writes. Every test that starts a gateway fails at its end when there was one. */

/**
 * Errors of the language that are no defects: undici wraps every failure of a connection in a `TypeError`, and a body that is not UTF-8 is the
 * cause of a refusal.
 */
const harmless = /fetch failed|terminated|Invalid URL|encoded data was not valid/;

const isDefect = (error: unknown): boolean =>
  (error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError) &&
  !harmless.test(error.message);

const messages: ReadonlySet<string> = new Set([
  'the gateway threw',
  'a promise was rejected without a handler',
  'an exception was not caught; the process ends',
]);

const depthMax = 6;

function findDefect(value: unknown, depth = 0): unknown {
  if (depth > depthMax || typeof value !== 'object' || value === null) return undefined;
  if (isDefect(value)) return value;
  const inner = value instanceof Error ? [value.cause] : Object.values(value);
  return inner.map((each) => findDefect(each, depth + 1)).find((found) => found !== undefined);
}

export class Defects {
  readonly #found: unknown[] = [];

  /** A message of the log and its fields. */
  see(message: string, fields?: unknown): void {
    const defect = messages.has(message) ? [message, fields] : findDefect(fields);
    if (defect !== undefined) this.#found.push(defect);
  }

  /** A line that a server wrote. */
  seeLine(line: string): void {
    const isNamed = /"name":"(?:TypeError|ReferenceError|RangeError)"/.test(line) && !harmless.test(line);
    if (isNamed || [...messages].some((message) => line.includes(`"message":"${message}"`)))
      this.#found.push(line);
  }

  /** @throws Error with the first one */
  assertNone(): void {
    const [first] = this.#found;
    if (first === undefined) return;
    this.#found.length = 0;
    throw new Error('the log shows a defect of the gateway', { cause: first });
  }
}

/** The headers of cross-origin requests: those that a browser sends, and those that let it read the reply. */
import { memoizeEach } from '../../base/bounded-cache.ts';
import type { Cors, CorsRule } from '../../domain/configurations/families.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import type { Wire } from '../../protocol/wire.ts';

/** Browsers name the headers that a script has set, each once, so a longer list is no browser's. */
export const headerNamesMax = 100;

/** The replies of a bucket with rules depend on these headers, also where no rule matched (Fetch "CORS protocol and HTTP caches"). */
export const varyHeader: HeaderPair = [
  'Vary',
  'Origin, Access-Control-Request-Headers, Access-Control-Request-Method',
];

/** The origin, method and headers; for a preflight those of the request that follows it. */
export function readCrossOrigin({ method, headers }: Wire): CrossOrigin | undefined {
  const origin = headers.get('origin');
  if (origin === undefined || origin === '') return undefined;
  return {
    origin,
    method: headers.get('access-control-request-method') ?? method,
    headers: requestedHeaders(headers.get('access-control-request-headers')),
  };
}

const requestedHeaders = (list = ''): string[] =>
  list
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');

export const matchCors = (cors: Cors, asked: CrossOrigin): CorsRule | undefined =>
  asked.headers.length > headerNamesMax ? undefined : findCorsRule(cors, asked);

/** The headers of a reply that the rule allows to be read. */
export function allowingHeaders(rule: CorsRule, { origin, headers }: CrossOrigin): HeaderPair[] {
  const isPublic = rule.AllowedOrigin.includes('*');
  const allowing: HeaderPair[] = [
    ['Access-Control-Allow-Origin', isPublic ? '*' : origin],
    ['Access-Control-Allow-Methods', rule.AllowedMethod.join(', ')],
  ];
  if (headers.length > 0) allowing.push(['Access-Control-Allow-Headers', headers.join(', ')]);
  if (rule.ExposeHeader.length > 0)
    allowing.push(['Access-Control-Expose-Headers', rule.ExposeHeader.join(', ')]);
  if (rule.MaxAgeSeconds !== undefined) allowing.push(['Access-Control-Max-Age', String(rule.MaxAgeSeconds)]);
  if (!isPublic) allowing.push(['Access-Control-Allow-Credentials', 'true']);
  return allowing;
}

// Finds the CORS rule that applies to a cross-origin request. A pattern has at most one `*`, so comparing both ends of the text suffices,
// without backtracking. Callers are anonymous, so the patterns of a rule are sorted once, and a text is looked up by its ends: it is not
// compared with each of them.

/** A cross-origin request, or the preflight request before one. */
export interface CrossOrigin {
  readonly origin: string;
  readonly method: string;
  /** Names of its headers, in lower case. */
  readonly headers: readonly string[];
}

/** The first rule that allows the origin, the method and every header. */
export const findCorsRule = ({ CORSRule }: Cors, asked: CrossOrigin): CorsRule | undefined =>
  CORSRule.find((rule) => allows(rule, asked));

function allows(rule: CorsRule, { origin, method, headers }: CrossOrigin): boolean {
  if (!rule.AllowedMethod.includes(method)) return false;
  const { origins, names } = compileRule(rule);
  return origins.includes(origin) && headers.every((name) => names.includes(name));
}

/** Of a rule of a cached document, so its patterns live as long as that. Header names match without regard to case. */
const compileRule = memoizeEach(({ AllowedOrigin, AllowedHeader }: CorsRule) => ({
  origins: new PatternSet(AllowedOrigin),
  names: new PatternSet(AllowedHeader.map((pattern) => pattern.toLowerCase())),
}));

/** Patterns with at most one `*`, which matches any text, the empty one too. */
export class PatternSet {
  readonly #texts = new Set<string>();
  /** The texts behind the `*`, by the text ahead of it. */
  readonly #ends = new Map<string, EndSet>();
  readonly #beginLengths: readonly number[];

  constructor(patterns: readonly string[]) {
    const ends = new Map<string, string[]>();
    for (const pattern of patterns) {
      const star = pattern.indexOf('*');
      if (star < 0) this.#texts.add(pattern);
      else {
        const begin = pattern.slice(0, star);
        const found = ends.get(begin);
        if (found === undefined) ends.set(begin, [pattern.slice(star + 1)]);
        else found.push(pattern.slice(star + 1));
      }
    }
    for (const [begin, texts] of ends) this.#ends.set(begin, new EndSet(texts));
    this.#beginLengths = lengthsOf(ends.keys());
  }

  includes(text: string): boolean {
    if (this.#texts.has(text)) return true;
    for (const length of this.#beginLengths) {
      if (length > text.length) break;
      const ends = this.#ends.get(text.slice(0, length));
      if (ends?.hasEndOf(text.slice(length)) === true) return true;
    }
    return false;
  }
}

/** The ends that texts may have. An end that has another one as its own end is left out, because that one is enough. */
class EndSet {
  readonly #ends = new Set<string>();
  readonly #lengths: readonly number[];

  constructor(texts: readonly string[]) {
    this.#lengths = lengthsOf(texts);
    for (const text of texts.toSorted((a, b) => a.length - b.length))
      if (!this.hasEndOf(text)) this.#ends.add(text);
    this.#lengths = lengthsOf(this.#ends);
  }

  hasEndOf(text: string): boolean {
    for (const length of this.#lengths) {
      if (length > text.length) break;
      if (this.#ends.has(text.slice(text.length - length))) return true;
    }
    return false;
  }
}

const lengthsOf = (texts: Iterable<string>): readonly number[] =>
  [...new Set([...texts].map(({ length }) => length))].sort((a, b) => a - b);

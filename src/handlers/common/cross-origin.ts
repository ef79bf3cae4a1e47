/** The headers of cross-origin requests: those that a browser sends, and those that let it read the reply. */
import type { Cors, CorsRule } from '../../domain/configurations/families.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import type { Wire } from '../../protocol/wire.ts';

/** Browsers name the headers that a script has set, each once, so a longer list is no browser's. */
const headerNamesMax = 100;

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
// without backtracking.

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

const allows = (
  { AllowedOrigin, AllowedMethod, AllowedHeader }: CorsRule,
  { origin, method, headers }: CrossOrigin,
): boolean =>
  AllowedMethod.includes(method) &&
  AllowedOrigin.some((pattern) => fits(pattern, origin)) &&
  headers.every((name) => AllowedHeader.some((pattern) => fits(pattern.toLowerCase(), name)));

/** `*` matches any text, the empty one too. */
function fits(pattern: string, text: string): boolean {
  const star = pattern.indexOf('*');
  if (star < 0) return pattern === text;
  const end = pattern.length - star - 1;
  return (
    text.length >= star + end &&
    text.startsWith(pattern.slice(0, star)) &&
    text.endsWith(pattern.slice(star + 1))
  );
}

/** A redirect target; absent parts stay as in the request. */

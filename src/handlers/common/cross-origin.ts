/** The headers of cross-origin requests: those that a browser sends, and those that let it read the reply. */
import { type CrossOrigin, findCorsRule } from '../../domain/configurations/cors.ts';
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

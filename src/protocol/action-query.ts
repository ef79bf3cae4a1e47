/**
 * Action queries: requests at service scope that name their operation in the `Action` parameter, in the URL or in a form. The public
 * IAM and STS APIs use them.
 */
import { fail } from '../base/errors.ts';
import { dialects } from './dialect.ts';
import { Query, type Wire } from './wire.ts';

/** Enough for the largest policy document with every character escaped, and the other parameters. */
export const formBytesMax = 128 * 1024;
const parametersMax = 1_000;

export type Parameters = ReadonlyMap<string, string>;
export const noParameters: Parameters = new Map();

const form = /^application\/x-www-form-urlencoded[ \t]*(?:;|$)/i;

export const isForm = ({ method, headers }: Pick<Wire, 'method' | 'headers'>): boolean =>
  method === 'POST' && form.test(headers.get('content-type')?.trim() ?? '');

/** @param path local, of a request whose host names no bucket */
export const isActionQuery = (wire: Wire, path: string, query: Query): boolean =>
  path === '/' && (isForm(wire) || query.has('Action'));

/** Parameters of the signature, which signers add to those of the action. */
export const isSigningParameter = (name: string): boolean =>
  dialects.some(({ headerPrefix }) => name.toLowerCase().startsWith(headerPrefix));

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The parameters of an action: URL and form together, each name once, or two readers could disagree on which counts.
 * @throws InvalidParameterCombination, MalformedQueryString
 */
export function readParameters(query: Query, body: Uint8Array): Parameters {
  const given = new Map<string, string>();
  const own = query.pairs.filter(([name]) => !isSigningParameter(name));
  for (const [name, value] of [...own, ...readForm(body).pairs]) {
    if (given.has(name))
      throw fail(
        'InvalidParameterCombination',
        `The parameter ${name.slice(0, 128)} was given more than once.`,
      );
    given.set(name, value);
    if (given.size > parametersMax)
      throw fail('MalformedQueryString', `A request has at most ${parametersMax} parameters.`);
  }
  return given;
}

function readForm(body: Uint8Array): Query {
  try {
    return new Query(utf8.decode(body));
  } catch (cause) {
    throw fail('MalformedQueryString', { cause });
  }
}

/**
 * Action queries: requests at service scope that name their operation in the `Action` parameter, in the URL or in a form. The public
 * IAM and STS APIs use them.
 */
import { fail } from '../../base/errors.ts';
import { dialects } from '../dialect.ts';
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

/** ARNs of accounts and of what IAM keeps in them, as the public API writes them. */
export const rootArn = (account: string): string => `arn:aws:iam::${account}:root`;

export interface Place {
  readonly name: string;
  /** Begins and ends with a slash. */
  readonly path?: string | undefined;
}

const arnOf =
  (kind: string) =>
  (account: string, { name, path = '/' }: Place): string =>
    `arn:aws:iam::${account}:${kind}${path}${name}`;
export const userArn = arnOf('user');
export const groupArn = arnOf('group');
export const roleArn = arnOf('role');
export const policyArn = arnOf('policy');
export const deviceArn = arnOf('mfa');
/** A caller that has the secret of a bucket's signing key; no entity of IAM. */
export const bucketKeyArn = arnOf('bucket-key');
/** A session of the application that embeds the gateway; no entity of IAM. */
export const applicationArn = arnOf('application');

/** Names of users; those of other entities may be longer. */
const entityName = /^[\w+=,.@-]{1,64}$/;
export const isEntityName = (name: string): boolean => entityName.test(name);

/** The ARN of a role's session; it does not include the role's path. */
export const sessionArn = (
  account: string,
  { role, name }: { readonly role: string; readonly name: string },
): string => `arn:aws:sts::${account}:assumed-role/${role}/${name}`;

interface EntityArn {
  readonly account: string;
  readonly kind: string;
  readonly path: string;
  readonly name: string;
}

/** The valid accounts, paths and names: texts that every store can hold. */
const entityArn =
  /^arn:aws:iam::([A-Za-z0-9][A-Za-z0-9._@-]{0,127}):([a-z]{1,32})(\/(?:[\x21-\x7e]{0,511}\/)?)([\w+=,.@-]{1,226})$/;

/** Undefined for what is no ARN of IAM. */
export function parseArn(arn: string): EntityArn | undefined {
  const [, account, kind, path, name] = entityArn.exec(arn) ?? [];
  if (account === undefined || kind === undefined || path === undefined || name === undefined)
    return undefined;
  return { account, kind, path, name };
}

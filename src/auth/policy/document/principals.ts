/** The Principal element: the callers that a statement of a resource policy applies to. */

import type { Principal } from '../request.ts';
import type { Json } from './json.ts';
import { malformed, quoted } from './malformed.ts';

export interface Principals {
  readonly everyone: boolean;
  /** Accounts, named by id, root ARN or canonical user id. */
  readonly accounts: ReadonlySet<string>;
  /** The accounts that are named by their id alone: an access key or a user's name looks the same. */
  readonly bare: ReadonlySet<string>;
  /** ARNs of users, roles, and sessions, also of the embedding application. */
  readonly arns: ReadonlySet<string>;
  /** What follows the account in `arn:aws:iam:::user/alice`: users and roles of the account that owns the resource. */
  readonly own: ReadonlySet<string>;
  readonly services: ReadonlySet<string>;
}

/**
 * How a statement reaches the caller: 'direct' names the caller or everyone; 'account' names the caller's account, which may then
 * allow its users by identity policies.
 */
export type Reach = 'direct' | 'account';

/** Account ids of this service (owner ids), and those of the public API (twelve digits). */
const accountPattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/;
/** Whether a text can be an account's id. */
export const isAccount = (text: string): boolean => accountPattern.test(text);

const namePattern = '[\\w+=,.@/-]{1,600}';
const rootArn = /^arn:aws[\w-]*:iam::([^:]+):root$/;
const namedArn = new RegExp(
  `^arn:aws[\\w-]*:(?:iam::([^:]+):(?:user|role|application)/${namePattern}|sts::([^:]+):(?:assumed-role|federated-user)/${namePattern})$`,
);
const ownArn = new RegExp(`^arn:aws[\\w-]*:iam:::((?:user|role|application)/${namePattern})$`);
const servicePattern = /^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?$/;

interface Found {
  readonly bare: Set<string>;
  readonly accounts: Set<string>;
  readonly arns: Set<string>;
  readonly own: Set<string>;
  readonly services: Set<string>;
}

function readAws(name: string, at: string, found: Found): void {
  const account = rootArn.exec(name)?.[1] ?? (name.includes(':') ? undefined : name);
  if (account !== undefined) {
    if (!accountPattern.test(account)) throw malformed(at, `${quoted(name)} is not an account`);
    found.accounts.add(account);
    if (account === name) found.bare.add(name);
    return;
  }
  const own = ownArn.exec(name)?.[1];
  if (own !== undefined) {
    found.own.add(own);
    return;
  }
  const match = namedArn.exec(name);
  if (!accountPattern.test(match?.[1] ?? match?.[2] ?? ''))
    throw malformed(at, `${quoted(name)} is not "*", an account or the ARN of a user, role or session`);
  found.arns.add(name);
}

const readers: ReadonlyMap<string, (name: string, at: string, found: Found) => void> = new Map([
  ['AWS', readAws],
  [
    'CanonicalUser',
    (name, at, { accounts }) => {
      if (!accountPattern.test(name)) throw malformed(at, `${quoted(name)} is not a canonical user id`);
      accounts.add(name);
    },
  ],
  [
    'Service',
    (name, at, { services }) => {
      if (!servicePattern.test(name)) throw malformed(at, `${quoted(name)} is not a service's host name`);
      services.add(name);
    },
  ],
]);

function readNames(value: Json, at: string): readonly string[] {
  const names = typeof value === 'string' ? [value] : value;
  if (!Array.isArray(names) || names.length === 0)
    throw malformed(at, 'must be a string or a list of strings');
  return names.map((name: unknown) => {
    if (typeof name !== 'string') throw malformed(at, 'must be a string or a list of strings');
    return name;
  });
}

/** @throws MalformedPolicy for a form that the engine does not know */
export function parsePrincipals(value: Json, at: string): Principals {
  const found = {
    accounts: new Set<string>(),
    bare: new Set<string>(),
    arns: new Set<string>(),
    own: new Set<string>(),
    services: new Set<string>(),
  };
  if (value === '*') return { everyone: true, ...found };
  if (!(value instanceof Map)) throw malformed(at, 'must be "*" or an object such as {"AWS": "*"}');
  const entries = value as ReadonlyMap<string, Json>;
  if (entries.size === 0) throw malformed(at, 'names no principal');
  let everyone = false;
  for (const [kind, given] of entries) {
    const read = readers.get(kind);
    if (read === undefined)
      throw malformed(at, `${quoted(kind)} is no kind of principal here: AWS, CanonicalUser or Service`);
    for (const name of readNames(given, `${at}.${kind}`)) {
      if (kind === 'AWS' && name === '*') everyone = true;
      else read(name, `${at}.${kind}`, found);
    }
  }
  return { everyone, ...found };
}

/** @param owner the account that owns the resource */
function isNamed(
  { arns, own, services }: Principals,
  principal: Principal,
  owner: string | undefined,
): boolean {
  const { arn, account, sessionArn, service } = principal;
  if (arn !== '' && arns.has(arn)) return true;
  if (sessionArn !== undefined && arns.has(sessionArn)) return true;
  if (service !== undefined && services.has(service)) return true;
  if (own.size === 0 || arn === '' || account === '' || account !== owner) return false;
  return own.has(arn.slice(arn.indexOf(`::${account}:`) + account.length + 3));
}

/** How the statement reaches the caller, or undefined when it does not. */
export function findReach(
  principals: Principals,
  principal: Principal,
  owner: string | undefined,
): Reach | undefined {
  if (principals.everyone || isNamed(principals, principal, owner)) return 'direct';
  if (principal.account === '' || !principals.accounts.has(principal.account)) return undefined;
  return principal.kind === 'root' ? 'direct' : 'account';
}

/**
 * Whether NotPrincipal exempts the caller. An account exempts its root only: its users must be named themselves, as AWS documents.
 */
export const isExempt = (principals: Principals, principal: Principal, owner: string | undefined): boolean =>
  findReach(principals, principal, owner) === 'direct';

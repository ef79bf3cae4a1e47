/**
 * Decides whether a bucket policy is public by the public API's definition: whether an Allow statement allows an arbitrary stranger.
 * The engine evaluates such strangers. A condition excludes them only where it requires a fixed value of a key that a stranger cannot
 * choose.
 */

import { type Address, parseRange, type Range, rangeContains } from '../../base/text/ip-address.ts';
import type { Condition } from './conditions.ts';
import type { PolicyDocument } from './document.ts';
import { operators } from './operators.ts';
import { splitArn } from './patterns.ts';
import { anonymous, type Principal } from './request.ts';
import type { Statement } from './statement.ts';

/** A text that no policy names; used as the account, user and VPC of a stranger. */
const unknown = 'stranger-0f9c2d7e';
const strangers: readonly Principal[] = [
  anonymous,
  { kind: 'root', account: unknown, arn: `arn:aws:iam::${unknown}:root`, userid: unknown },
  {
    kind: 'user',
    account: unknown,
    arn: `arn:aws:iam::${unknown}:user/${unknown}`,
    userid: `AIDA${unknown}`,
    username: unknown,
  },
  {
    kind: 'session',
    account: unknown,
    arn: `arn:aws:iam::${unknown}:role/${unknown}`,
    sessionArn: `arn:aws:sts::${unknown}:assumed-role/${unknown}/${unknown}`,
    userid: `AROA${unknown}:${unknown}`,
  },
];

/**
 * Keys whose values a stranger cannot choose (public API). The KMS key's id is left out although the public API lists it, because here
 * it is a header that every request may carry.
 */
const fixing = new Set([
  'aws:SourceArn',
  'aws:SourceVpc',
  'aws:SourceVpce',
  'aws:SourceOwner',
  'aws:SourceAccount',
  'aws:SourceOrgID',
  'aws:PrincipalOrgID',
  'aws:PrincipalAccount',
  'aws:PrincipalArn',
  'aws:userid',
  's3:DataAccessPointArn',
  's3:DataAccessPointAccount',
]);

/** Shortest prefixes of fixed ranges, of 128 bits. A wider range counts as the whole internet, unless it is private. */
const widestFour = 96 + 8;
const widestSix = 32;
/** The largest number of IPv4 addresses in all narrow ranges together: a sixteenth of all addresses. */
const fourMax = 2 ** 28;
const privateRanges = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'].map(
  (text) => parseRange(text) as Range,
);
/** The range of IPv4-mapped addresses. */
const mappedFour: Address = [0, 0, 0xffff, 0];

const isFour = ({ base, bits }: Range): boolean =>
  bits >= 96 && base[0] === 0 && base[1] === 0 && base[2] === 0xffff;
const isPrivate = (range: Range): boolean =>
  privateRanges.some((each) => each.bits <= range.bits && rangeContains(each, range.base));

function isNarrow(range: Range): boolean {
  if (isPrivate(range)) return true;
  if (isFour(range)) return range.bits >= widestFour;
  // A range of IPv6 that holds the mapped addresses holds all of IPv4.
  return range.bits >= widestSix && !rangeContains(range, mappedFour);
}

/** How many public IPv4 addresses the ranges contain together. */
function fourIn(ranges: readonly Range[]): number {
  const spans = ranges
    .filter((range) => isFour(range) && !isPrivate(range))
    .map(({ base, bits }) => {
      const size = 2 ** (128 - bits);
      const first = Math.floor(base[3] / size) * size;
      return { first, end: first + size };
    })
    .sort((a, b) => a.first - b.first);
  let count = 0;
  let seen = 0;
  for (const { first, end } of spans) {
    count += Math.max(0, end - Math.max(first, seen));
    seen = Math.max(seen, end);
  }
  return count;
}

function areNarrow(values: readonly string[]): boolean {
  const ranges: Range[] = [];
  for (const value of values) {
    const range = parseRange(value);
    if (range === undefined || !isNarrow(range)) return false;
    ranges.push(range);
  }
  return fourIn(ranges) <= fourMax;
}

/** The name in an access point's ARN may be a pattern as long as the account is fixed. */
function fixesAccount(value: string): boolean {
  const [, , , , account = ''] = splitArn(value) ?? [];
  return account !== '' && !/[*?]/.test(account);
}

function isFixed({ operator, key }: Condition, value: string): boolean {
  if (value.includes('${')) return false;
  const isOpen = operators.get(operator)?.takesPatterns === true && /[*?]/.test(value);
  if (key.name === 's3:DataAccessPointArn') return !isOpen || fixesAccount(value);
  // `AROA…:*` is one role, with any name of session.
  if (key.name === 'aws:userid') return !isOpen || /^AROA[A-Z0-9]+:\*$/.test(value);
  return !isOpen;
}

/** The values that a stranger's request may have for a key: none, or one of the stranger's choice. */
const strangerSays: readonly (string | undefined)[] = [undefined, unknown, `arn:aws:s3:::${unknown}`];

/** Whether a stranger can satisfy the condition: true unless it is known to exclude strangers. */
function letsIn(condition: Condition, principal: Principal): boolean {
  const { operator, quantifier, ifExists, key, values } = condition;
  if (key.name === 'aws:SourceIp')
    // Without the key, `IfExists` and `ForAllValues` hold.
    return operator !== 'IpAddress' || ifExists || quantifier === 'all' || !areNarrow(values);
  if (!fixing.has(key.name) || !values.every((value) => isFixed(condition, value))) return true;
  return strangerSays.some((value) =>
    condition.holds({ principal, action: '', resource: '', context: { lookup: () => value } }),
  );
}

const isPublicStatement = ({ effect, reach, conditions }: Statement): boolean =>
  effect === 'Allow' &&
  strangers.some(
    (stranger) =>
      reach({ principal: stranger }) !== undefined &&
      conditions.every((condition) => letsIn(condition, stranger)),
  );

/** Results by document; documents are immutable. */
const known = new WeakMap<PolicyDocument, boolean>();

export function isPublicPolicy(document: PolicyDocument): boolean {
  const before = known.get(document);
  if (before !== undefined) return before;
  const answer = document.statements.some(isPublicStatement);
  known.set(document, answer);
  return answer;
}

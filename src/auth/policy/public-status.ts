/**
 * Whether a bucket policy is public, as the public API defines it: it is, unless every Allow is held to fixed
 * principals, or to fixed values of a key that nobody can choose freely.
 */
import { parseRange, type Range, rangeContains } from './addresses.ts';
import type { Condition } from './conditions.ts';
import type { PolicyDocument } from './document.ts';
import { splitArn } from './patterns.ts';
import type { Statement } from './statement.ts';

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
  's3:x-amz-server-side-encryption-aws-kms-key-id',
  's3:DataAccessPointArn',
  's3:DataAccessPointAccount',
]);
/** Operators whose truth means that the key is there and has one of the values. */
const fixingOperators = new Set([
  'StringEquals',
  'StringEqualsIgnoreCase',
  'StringLike',
  'ArnEquals',
  'ArnLike',
]);
const takesWildcards = new Set(['StringLike', 'ArnEquals', 'ArnLike']);

/** Wider ranges are the whole internet by another name, except private ones. */
const widestFour = 96 + 8;
const widestSix = 32;
const privateRanges = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'].map(
  (text) => parseRange(text) as Range,
);

function isNarrow(text: string): boolean {
  const range = parseRange(text);
  if (range === undefined) return false;
  const isFour = range.bits >= 96 && range.base[2] === 0xffff && range.base[0] === 0 && range.base[1] === 0;
  if (range.bits >= (isFour ? widestFour : widestSix)) return true;
  return privateRanges.some((each) => each.bits <= range.bits && rangeContains(each, range.base));
}

/** Any name of an access point will do where its account is fixed. */
function fixesAccount(value: string): boolean {
  const [, , , , account = ''] = splitArn(value) ?? [];
  return account !== '' && !/[*?]/.test(account);
}

function isFixed({ operator, key }: Condition, value: string): boolean {
  if (value.includes('${')) return false;
  const isOpen = takesWildcards.has(operator) && /[*?]/.test(value);
  if (key.name === 's3:DataAccessPointArn') return !isOpen || fixesAccount(value);
  // `AROA…:*` is one role, with any name of session.
  if (key.name === 'aws:userid') return !isOpen || /^AROA[A-Z0-9]+:\*$/.test(value);
  return !isOpen;
}

function restricts(condition: Condition): boolean {
  const { operator, quantifier, ifExists, key, values } = condition;
  // Both hold for a request that has no such key.
  if (ifExists || quantifier === 'all') return false;
  if (key.name === 'aws:SourceIp' && operator === 'IpAddress') return values.every(isNarrow);
  if (!fixing.has(key.name) || !fixingOperators.has(operator)) return false;
  return values.every((value) => isFixed(condition, value));
}

const isPublicStatement = ({ effect, principals, conditions }: Statement): boolean =>
  effect === 'Allow' && principals?.everyone !== false && !conditions.some(restricts);

/** Requests ask again and again, documents never change. */
const known = new WeakMap<PolicyDocument, boolean>();

export function isPublicPolicy(document: PolicyDocument): boolean {
  const before = known.get(document);
  if (before !== undefined) return before;
  const answer = document.statements.some(isPublicStatement);
  known.set(document, answer);
  return answer;
}

/**
 * The policy of a form (public API "POST Policy") restricts the fields that the form may send. A condition must cover every
 * field, including the bucket; otherwise a form could add fields that its signer did not allow.
 */

import { type Json, type JsonObject, readStrictJson } from '../../base/text/strict-json.ts';
import { fail, type Refusal } from '../../errors/refusal.ts';

type Fields = ReadonlyMap<string, string>;

interface Match {
  readonly kind: 'eq' | 'starts-with';
  /** In lower case. */
  readonly field: string;
  readonly value: string;
  /** As a refusal shows it. */
  readonly text: string;
}

/** Bytes of the file, both ends included. */
export interface LengthRange {
  readonly min: number;
  readonly max: number;
}

export interface PostPolicy {
  /** In ms since the epoch. */
  readonly expiration: number;
  readonly matches: readonly Match[];
  readonly lengths: LengthRange;
}

/** In UTC; Python's `isoformat` writes it as an offset. */
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|\+00:00)$/;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** @param encoded base64 of its JSON @throws InvalidPolicyDocument */
export function parsePostPolicy(encoded: string): PostPolicy {
  const document = decode(encoded);
  const expiration = document.get('expiration');
  const conditions = document.get('conditions');
  if (expiration === undefined) throw invalid('Policy missing expiration.');
  if (typeof expiration !== 'string' || !isoTime.test(expiration) || Number.isNaN(Date.parse(expiration)))
    throw invalid(`Invalid 'expiration' value: '${String(expiration)}'`);
  if (!Array.isArray(conditions)) throw invalid('Policy missing conditions.');
  const matches: Match[] = [];
  let lengths: LengthRange = { min: 0, max: Number.MAX_SAFE_INTEGER };
  for (const condition of conditions as readonly Json[]) {
    const read = readCondition(condition);
    if ('field' in read) matches.push(read);
    else lengths = { min: Math.max(lengths.min, read.min), max: Math.min(lengths.max, read.max) };
  }
  return { expiration: Date.parse(expiration), matches, lengths };
}

function decode(encoded: string): JsonObject {
  const document = readStrictJson(decodeText(encoded), {
    refuse: (path, problem) => invalid(`Invalid JSON: ${path === '' ? 'the document' : path} ${problem}.`),
  });
  if (document instanceof Map) return document as JsonObject;
  throw invalid('Invalid JSON: the document must be an object.');
}

function decodeText(encoded: string): string {
  try {
    return utf8.decode(Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0)));
  } catch {
    throw invalid('Invalid JSON: the document must be UTF-8 in base64.');
  }
}

function readCondition(condition: Json): Match | LengthRange {
  if (Array.isArray(condition)) return readList(condition as readonly Json[]);
  const pairs = condition instanceof Map ? [...(condition as JsonObject)] : [];
  const [field, value] = pairs[0] ?? [];
  if (field === undefined || pairs.length > 1)
    throw invalid('Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.');
  if (typeof value !== 'string') throw invalid('Invalid Simple-Condition: value must be a string.');
  const name = field.toLowerCase();
  // The public service writes such a condition with blanks, and a list without.
  const text = `["eq", ${JSON.stringify(`$${name}`)}, ${JSON.stringify(value)}]`;
  return { kind: 'eq', field: name, value, text };
}

function readList(condition: readonly Json[]): Match | LengthRange {
  const [operator, left, right] = condition;
  const kind = typeof operator === 'string' ? operator.toLowerCase() : undefined;
  if (condition.length === 3 && kind === 'content-length-range') {
    const [min, max] = [readLength(left), readLength(right)];
    if (min !== undefined && max !== undefined) return { min, max };
  }
  const isMatch = kind === 'eq' || kind === 'starts-with';
  if (
    condition.length === 3 &&
    isMatch &&
    typeof left === 'string' &&
    left.startsWith('$') &&
    typeof right === 'string'
  ) {
    const field = left.slice(1).toLowerCase();
    return { kind, field, value: right, text: JSON.stringify([kind, `$${field}`, right]) };
  }
  throw invalid(`Invalid condition: ${JSON.stringify(condition).slice(0, 200)}`);
}

/** Many signers write the length as a text. */
function readLength(value: unknown): number | undefined {
  const length = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(length) && (length as number) >= 0 ? (length as number) : undefined;
}

const invalid = (problem: string): Refusal => fail('InvalidPolicyDocument', `Invalid Policy: ${problem}`);

export interface PolicyCase {
  /** Fields by lower-case name, with the final key and the bucket of the address. */
  readonly fields: Fields;
  /** Fields of the signature itself, which need no condition. */
  readonly exempt: ReadonlySet<string>;
  readonly now: number;
}

/** @throws AccessDenied for a form that is expired, violates a condition, or has fields that the policy does not mention */
export function checkPostPolicy(policy: PostPolicy, { fields, exempt, now }: PolicyCase): void {
  if (now > policy.expiration) throw denied('Policy expired.');
  for (const match of policy.matches) {
    if (!holds(match, fields.get(match.field) ?? '')) throw denied(`Policy Condition failed: ${match.text}`);
  }
  const covered = new Set(policy.matches.map(({ field }) => field));
  const extra = [...fields.keys()].filter(
    (name) => !covered.has(name) && !exempt.has(name) && !name.startsWith('x-ignore-'),
  );
  if (extra.length > 0) throw denied(`Extra input fields: ${extra.sort().join(', ')}`);
}

const denied = (problem: string): Refusal => fail('AccessDenied', `Invalid according to Policy: ${problem}`);

/** Fields that a condition must name exactly (public API): `starts-with` never holds for them. */
const isExact = (field: string): boolean =>
  field === 'bucket' || /^x-(amz|store)-(algorithm|credential|date|security-token)$/.test(field);

function holds({ kind, field, value }: Match, given: string): boolean {
  if (kind === 'eq') return given === value;
  if (isExact(field)) return false;
  // A list of types must be allowed in every member.
  const members = field === 'content-type' ? given.split(',').map((type) => type.trim()) : [given];
  return members.every((member) => member.startsWith(value));
}

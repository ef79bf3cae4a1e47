/** `SVC_NOTIFY_TARGETS`: the sinks that a bucket's notifications may point to. */
import type { SinkTarget } from '../../ports/event-sink.ts';
import { fault, type Read, type Setting, value } from '../read/setting.ts';
import { isAccounts } from './keys.ts';
import { kindFaults, targetKinds } from './target-kinds.ts';

const isTargetType = (type: unknown): type is SinkTarget['type'] =>
  typeof type === 'string' && Object.hasOwn(targetKinds, type);

/** What a sink gets as its messages: see `domain/events/deliver/envelope.ts`. */
export const envelopes = ['s3', 'cloudevents', 'eventbridge'] as const;

export interface NotifyTarget extends SinkTarget {
  /** Default `s3`. */
  readonly envelope?: (typeof envelopes)[number];
  /** A bucket's configuration that names the target is stored only after the target has taken a test event. */
  readonly validate?: boolean;
  /** The accounts whose buckets may name the target, or `*`. Absent: the only account, or none of several. */
  readonly accounts?: readonly string[];
}

const targetId = /^[A-Za-z0-9_-]{1,80}$/;
const targetsMax = 256;
const textMax = 2048;

/** Optional fields of texts. */
const texts = [
  'username',
  'password',
  'secret',
  'caFile',
  'certFile',
  'keyFile',
  'subject',
  'key',
  'table',
  'topic',
  'exchange',
  'routingKey',
  'region',
  'brokers',
  'mode',
] as const;
const printable = /^[\x20-\x7e]{1,2048}$/;

function entryFaults(entry: unknown, index: number, earlier: readonly unknown[]): readonly string[] {
  const at = `: entry ${index + 1}`;
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return [`${at} is not an object`];
  const { id, type, url, token, envelope, validate, accounts, ...others } = entry as Record<string, unknown>;
  const faults: string[] = [];
  if (typeof id !== 'string' || !targetId.test(id)) {
    faults.push(`${at} needs an id of A-Z, a-z, 0-9, "_" and "-", at most 80 long`);
  } else if (earlier.some((other) => (other as { id?: unknown } | null)?.id === id)) {
    faults.push(`${at} repeats the id "${id}"`);
  }
  if (!isTargetType(type))
    faults.push(`${at} needs a type that is one of ${Object.keys(targetKinds).join(', ')}`);
  if (typeof url !== 'string' || url.length > textMax || !URL.canParse(url)) faults.push(`${at} needs a url`);
  if (token !== undefined && (typeof token !== 'string' || !/^[\x21-\x7e]{1,2048}$/.test(token)))
    faults.push(`${at} has a token that is not printable ASCII without spaces`);
  if (envelope !== undefined && !envelopes.some((known) => known === envelope))
    faults.push(`${at} has an envelope that is not one of ${envelopes.join(', ')}`);
  if (validate !== undefined && typeof validate !== 'boolean')
    faults.push(`${at} has a validate that is neither true nor false`);
  if (accounts !== undefined && !isAccounts(accounts))
    faults.push(`${at} has accounts that are not a list such as ["alice"] or ["*"]`);
  for (const name of texts) {
    const text = others[name];
    if (text !== undefined && (typeof text !== 'string' || !printable.test(text)))
      faults.push(`${at} has a ${name} that is not printable ASCII`);
  }
  if (isTargetType(type))
    faults.push(...kindFaults(type, entry as Record<string, unknown>).map((each) => `${at} ${each}`));
  return [...faults, ...combinationFaults(at, entry as Record<string, unknown>)];
}

function combinationFaults(at: string, entry: Record<string, unknown>): readonly string[] {
  const has = (name: string): boolean => entry[name] !== undefined;
  const faults: string[] = [];
  if (has('certFile') !== has('keyFile')) faults.push(`${at} needs certFile and keyFile together`);
  // The default user of Redis has a password alone.
  if (has('password') && !has('username') && entry['type'] !== 'redis')
    faults.push(`${at} has a password without a username`);
  if (has('token') && has('username')) faults.push(`${at} has a token and a username: name one of them`);
  const { secret } = entry;
  if (typeof secret === 'string' && /^whsec_(?![A-Za-z0-9+/]+={0,2}$)/.test(secret))
    faults.push(`${at} has a secret that starts with whsec_ and is no base64`);
  return faults;
}

function readTargets(given: string): Read<readonly NotifyTarget[]> {
  if (given === '') return value([]);
  let entries: unknown;
  try {
    entries = JSON.parse(given);
  } catch {
    entries = undefined;
  }
  if (!Array.isArray(entries)) return fault('is not a JSON array of {"id": …, "type": …, "url": …}');
  if (entries.length > targetsMax) return fault(`has more than ${targetsMax} targets`);
  const faults = entries.flatMap((entry, index) => entryFaults(entry, index, entries.slice(0, index)));
  // The cast: an entry without a fault has the fields of a target and no others.
  return faults.length > 0 ? { faults } : value(entries as readonly NotifyTarget[]);
}

export const notifyTargets = (doc: string): Setting<readonly NotifyTarget[]> => ({
  kind: 'JSON array of `{id, type, url, accounts?, envelope?, …}`; the fields of each type are in docs/operations/events.md',
  doc,
  fallback: '',
  read: readTargets,
});

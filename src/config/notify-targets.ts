/** `SVC_NOTIFY_TARGETS`: the sinks that a bucket's notifications may point to. */
import { type SinkTarget, sinkKinds } from '../ports/event-sink.ts';
import { isAccounts } from './keys.ts';
import { fault, type Read, type Setting, value } from './setting.ts';

/** A key of at least one byte; padding may be left out. */
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=?|[A-Za-z0-9+/]{2}(?:==)?)$/;

/** @returns what is wrong in the fields of an entry whose type is known; each continues the name of the entry */
function kindFaults(type: SinkTarget['type'], entry: Readonly<Record<string, unknown>>): string[] {
  const { schemes, needs, takes, modes, forms = {} } = sinkKinds[type];
  const faults: string[] = [];
  const { url, mode, maxLength } = entry;
  if (schemes.length === 0) {
    if (url !== undefined && url !== '')
      faults.push(`is of type ${type} and has a url: name its binding only`);
  } else if (typeof url === 'string' && URL.canParse(url)) {
    const { protocol, username, password: inside, hostname } = new URL(url);
    if (!schemes.includes(protocol.slice(0, -1))) faults.push(`needs a url of ${schemes.join(' or ')}`);
    else if (hostname === '') faults.push('has a url without a host');
    if (username !== '' || inside !== '')
      faults.push('has a user name or password in its url: write username and password as fields');
  }
  for (const name of needs)
    if (entry[name] === undefined) faults.push(`is of type ${type} and needs ${name}`);
  const known: readonly string[] = [
    ...needs,
    ...takes,
    'id',
    'type',
    'url',
    'accounts',
    'envelope',
    'validate',
  ];
  for (const name of Object.keys(entry))
    if (!known.includes(name)) faults.push(`is of type ${type} and has an unknown field "${name}"`);
  if (modes !== undefined && mode !== undefined && !modes.some((each) => each === mode))
    faults.push(`has a mode that is not one of ${modes.join(', ')}`);
  if (maxLength !== undefined && !(Number.isSafeInteger(maxLength) && Number(maxLength) > 0))
    faults.push('has a maxLength that is not a positive number');
  for (const [name, { form, fault }] of Object.entries(forms)) {
    const text = entry[name];
    if (typeof text === 'string' && !form.test(text)) faults.push(fault);
  }
  return faults;
}

const isTargetType = (type: unknown): type is SinkTarget['type'] =>
  typeof type === 'string' && Object.hasOwn(sinkKinds, type);

/** What a sink gets as its messages: see `domain/events/envelope.ts`. */
const envelopes = ['s3', 'cloudevents', 'eventbridge'] as const;

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

/** The fields of all kinds that are checked as texts. */
const texts = new Set(
  Object.values(sinkKinds)
    .flatMap(({ needs, takes }) => [...needs, ...takes])
    .filter((field) => field !== 'token' && field !== 'maxLength'),
);
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
    faults.push(`${at} needs a type that is one of ${Object.keys(sinkKinds).join(', ')}`);
  const hasUrl = !isTargetType(type) || sinkKinds[type].schemes.length > 0;
  if (hasUrl && (typeof url !== 'string' || url.length > textMax || !URL.canParse(url)))
    faults.push(`${at} needs a url`);
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
  const { type } = entry;
  const hasPasswordAlone = isTargetType(type) && sinkKinds[type].hasPasswordAlone === true;
  if (has('password') && !has('username') && !hasPasswordAlone)
    faults.push(`${at} has a password without a username`);
  if (has('token') && has('username')) faults.push(`${at} has a token and a username: name one of them`);
  const { secret } = entry;
  if (
    typeof secret === 'string' &&
    secret.startsWith('whsec_') &&
    !base64.test(secret.slice('whsec_'.length))
  )
    faults.push(`${at} has a secret that starts with whsec_ and is no base64`);
  return faults;
}

function readTargets(input: string): Read<readonly NotifyTarget[]> {
  if (input === '') return value([]);
  let entries: unknown;
  try {
    entries = JSON.parse(input);
  } catch {
    entries = undefined;
  }
  if (!Array.isArray(entries)) return fault('is not a JSON array of {"id": …, "type": …, "url": …}');
  if (entries.length > targetsMax) return fault(`has more than ${targetsMax} targets`);
  const faults = entries.flatMap((entry, index) => entryFaults(entry, index, entries.slice(0, index)));
  // The cast: an entry without a fault has the fields of a target and no others.
  return faults.length > 0
    ? { faults }
    : value((entries as readonly NotifyTarget[]).map((entry) => ({ ...entry, url: entry.url ?? '' })));
}

export const notifyTargets = (doc: string): Setting<readonly NotifyTarget[]> => ({
  kind: 'JSON array of `{id, type, url, accounts?, envelope?, …}`; the fields of each type are in docs/operations/events.md',
  doc,
  fallback: '',
  read: readTargets,
});

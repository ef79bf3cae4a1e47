/** `SVC_NOTIFY_TARGETS`: the sinks that a bucket's notifications may point to. */
import { fault, type Read, type Setting, value } from '../read/setting.ts';

export const notifyTargetTypes = ['webhook', 'queue'] as const;

export interface NotifyTarget {
  /** The last field of the ARNs that point to it. */
  readonly id: string;
  readonly type: (typeof notifyTargetTypes)[number];
  readonly url: string;
  /** Sent as a bearer token. */
  readonly token?: string;
}

const targetId = /^[A-Za-z0-9_-]{1,80}$/;
const targetsMax = 256;
const textMax = 2048;

function entryFaults(entry: unknown, index: number, earlier: readonly unknown[]): readonly string[] {
  const at = `: entry ${index + 1}`;
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return [`${at} is not an object`];
  const { id, type, url, token, ...others } = entry as Record<string, unknown>;
  const faults: string[] = [];
  if (typeof id !== 'string' || !targetId.test(id)) {
    faults.push(`${at} needs an id of A-Z, a-z, 0-9, "_" and "-", at most 80 long`);
  } else if (earlier.some((other) => (other as { id?: unknown } | null)?.id === id)) {
    faults.push(`${at} repeats the id "${id}"`);
  }
  if (!notifyTargetTypes.some((known) => known === type))
    faults.push(`${at} needs a type that is one of ${notifyTargetTypes.join(', ')}`);
  if (typeof url !== 'string' || url.length > textMax || !URL.canParse(url)) faults.push(`${at} needs a url`);
  if (token !== undefined && (typeof token !== 'string' || !/^[\x21-\x7e]{1,2048}$/.test(token)))
    faults.push(`${at} has a token that is not printable ASCII without spaces`);
  for (const name of Object.keys(others)) faults.push(`${at} has an unknown field "${name}"`);
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
  kind: 'JSON array of `{id, type, url, token?}`',
  doc,
  fallback: '',
  read: readTargets,
});

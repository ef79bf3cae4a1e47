/** The records of IAM as the operator API shows them, for the audit rows of their changes. No kind with a secret is among them. */
import { type IamRecord, type StoredIam, toRecord } from '../../metadata/iam.ts';
import type { State } from '../events/audit/state-changes.ts';

type Shown = 'profile' | 'user' | 'group' | 'role' | 'policy' | 'key';

const states: { readonly [K in Shown]: (record: IamRecord<K>) => State } = {
  profile: ({ value: { displayName, email, status } }) => ({ displayName, email, status }),
  user: ({ value: { name, path, isDisabled } }) => ({
    name,
    path,
    status: isDisabled === true ? 'Disabled' : 'Active',
  }),
  group: ({ value: { name, path } }) => ({ name, path }),
  role: ({ value: { name, path, sessionSecondsMax } }) => ({ name, path, sessionSeconds: sessionSecondsMax }),
  policy: ({ value: { name, path, defaultVersion } }) => ({ name, path, defaultVersion }),
  key: ({ name, value: { status } }) => ({ accessKeys: { [name]: status } }),
};

const isShown = (kind: string): kind is Shown => Object.hasOwn(states, kind);

export function recordState(stored: Pick<StoredIam, 'row'>): State {
  const { kind } = stored.row;
  if (!isShown(kind)) return {};
  // The cast is safe: the record is of the kind that names the function.
  const toState = states[kind] as (record: IamRecord<Shown>) => State;
  return toState(toRecord<Shown>(stored));
}

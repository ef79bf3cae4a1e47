/** `SVC_POOL_CLUSTERS`: the clusters that chunks are kept on. */
import { type EntriesRule, matching, path, readEntries } from '../read/entries.ts';
import type { Setting } from '../read/setting.ts';

export interface ClusterSetting {
  readonly id: string;
  /** Where the `file` backend keeps this cluster's chunks; under the data directory when absent. */
  readonly dir?: string;
  /** How `cluster-pool` reaches this cluster: Ceph's configuration file, addresses of monitors, or both. */
  readonly conf?: string;
  readonly monHosts?: string;
  /** With its type, as in `client.sluice`, the default. */
  readonly user?: string;
  readonly keyring?: string;
  /** The pool of chunks whose class has none of its own. */
  readonly pool?: string;
  readonly namespace?: string;
}

/** The fields that only `cluster-pool` uses. */
export const poolFields = ['conf', 'monHosts', 'user', 'keyring', 'pool', 'namespace'] as const;

const rule: EntriesRule<ClusterSetting> = {
  what: 'clusters',
  fields: {
    dir: path,
    conf: path,
    monHosts: matching(/^[\w.:,;[\]/ -]{1,1024}$/, 'a list of addresses'),
    user: matching(/^client\.[\w.-]{1,64}$/, 'a user such as "client.sluice"'),
    keyring: path,
    pool: matching(/^[\w.-]{1,128}$/, 'the name of a pool'),
    // Short, because it is stored in the row of every object.
    namespace: matching(/^[\w.-]{1,30}$/, 'a name of at most 30 letters, digits, ".", "_" and "-"'),
  },
};

export const clusters = (fallback: string, doc: string): Setting<readonly ClusterSetting[]> => ({
  kind: 'comma list of ids, or JSON array of `{id, dir?}` or `{id, conf?, monHosts?, user?, keyring?, pool?, namespace?}`',
  doc,
  fallback,
  read: (given) => readEntries(given, rule),
});

/** `SVC_POOL_CLUSTERS`: the clusters that chunks are kept on. */

import { findStorageClassName, storageClassAliases, storageClassNames } from '../ports/storage-classes.ts';
import { type EntriesRule, matching, path, readEntries } from './entries.ts';
import { fault, type Read, type Setting, value } from './setting.ts';

// `SVC_STORAGE_CLASSES`: where the bytes of a class go. An item is
// `<class>[=<pool>[/<namespace>]][@<cluster>]`; the cluster pins the class, the pool is the `cluster-pool` backend's.

/** The settings of one class. A class that is not listed is stored like objects without a class. */
export interface StorageClassSetting {
  /** The name in the public API. */
  readonly storageClass: string;
  readonly pool?: string;
  readonly namespace?: string;
  /** A cluster that takes the class; there may be an item for each of several. */
  readonly cluster?: string;
}

const item =
  /^([A-Za-z][A-Za-z_-]*)(?:=([\w.-]{1,128})(?:\/([\w.-]{1,30}))?)?(?:@([a-z0-9][a-z0-9._-]{0,62}))?$/;

function readItem(text: string): Read<StorageClassSetting> {
  const [, name = '', pool, namespace, cluster] = item.exec(text) ?? [];
  if (name === '')
    return fault('is not <class>=<pool>/<namespace>@<cluster>, of which only the class must be');
  const storageClass = findStorageClassName(name);
  if (storageClass === undefined) {
    const known = [...Object.keys(storageClassAliases), ...storageClassNames].join(', ');
    return fault(`names no storage class, which are ${known}`);
  }
  return value({
    storageClass,
    ...(pool === undefined ? {} : { pool }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(cluster === undefined ? {} : { cluster }),
  });
}

const itemsMax = 64;

/** A class may be pinned to several clusters, each in an item of its own; a class without a pin has one item. */
const isContradicted = (
  earlier: StorageClassSetting,
  { storageClass, cluster }: StorageClassSetting,
): boolean =>
  earlier.storageClass === storageClass &&
  (earlier.cluster === undefined || cluster === undefined || earlier.cluster === cluster);

function readClasses(input: string): Read<readonly StorageClassSetting[]> {
  const texts = input
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (texts.length > itemsMax) return fault(`has more than ${itemsMax} items`);
  const classes: StorageClassSetting[] = [];
  const faults: string[] = [];
  for (const text of texts) {
    const read = readItem(text);
    if ('faults' in read) faults.push(...read.faults.map((why) => `: "${text}" ${why}`));
    else if (classes.some((earlier) => isContradicted(earlier, read.value)))
      faults.push(`: "${text}" says a second time where ${read.value.storageClass} goes`);
    else classes.push(read.value);
  }
  return faults.length > 0 ? { faults } : value(classes);
}

export const storageClasses = (doc: string): Setting<readonly StorageClassSetting[]> => ({
  kind: 'comma list of `<class>[=<pool>[/<namespace>]][@<cluster>]`',
  doc,
  fallback: '',
  read: readClasses,
});

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
  read: (input) => readEntries(input, rule),
});

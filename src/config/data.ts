/**
 * The data backends. To add one: a row here, its opening in `runtime/compose/compose-bytes.ts`, where the compiler asks for it, and its
 * file in `backends/data`. The settings of its clusters are in `clusters.ts` and `upstreams.ts`.
 */

import type { OptionalPackage } from '../base/optional-packages.ts';
import { awsApi } from '../ports/trace.ts';
import { poolFields } from './clusters.ts';

interface DataBackend {
  /** How long its bytes are stored. */
  readonly lifetime: 'persistent' | 'process' | 'none';
  /** The setting that lists its clusters. */
  readonly list: 'SVC_POOL_CLUSTERS' | 'SVC_UPSTREAMS';
  /** The fields of `SVC_POOL_CLUSTERS` that it uses, beside the id. */
  readonly fields: readonly ('dir' | (typeof poolFields)[number])[];
  /** Its clusters are directories on disks of this machine, by default in `SVC_DATA_DIR`; each has a file that names its installation. */
  readonly isOnDisks?: true;
  /** The store itself keeps the name of the installation that its clusters belong to. */
  readonly marksItself?: true;
  /** Storage classes may name pools. */
  readonly hasPools?: true;
  /** Requests to its clusters cost money, so they are probed seldom, and scrubbed only on request. */
  readonly isPaid?: true;
  /** Writes may use `SVC_MEMORY_MAX / writeDivisor`. */
  readonly writeDivisor: number;
  readonly packages?: readonly OptionalPackage[];
  /** What traces call it, where that is not its name here. */
  readonly system?: string;
}

const rows = {
  memory: { lifetime: 'process', list: 'SVC_POOL_CLUSTERS', fields: [], writeDivisor: 2 },
  file: {
    lifetime: 'persistent',
    list: 'SVC_POOL_CLUSTERS',
    fields: ['dir'],
    isOnDisks: true,
    writeDivisor: 2,
  },
  'cluster-pool': {
    lifetime: 'persistent',
    list: 'SVC_POOL_CLUSTERS',
    fields: poolFields,
    marksItself: true,
    hasPools: true,
    // A write holds its whole chunk of 4 MiB in the driver's memory until it is stored, so many of them regularly reach the bound;
    // with other backends most of a write's bytes are in the kernel.
    writeDivisor: 4,
    packages: ['koffi'],
    system: 'ceph',
  },
  'upstream-store': {
    lifetime: 'persistent',
    list: 'SVC_UPSTREAMS',
    fields: [],
    marksItself: true,
    isPaid: true,
    writeDivisor: 2,
    system: awsApi,
  },
  noop: { lifetime: 'none', list: 'SVC_POOL_CLUSTERS', fields: [], writeDivisor: 2 },
} as const satisfies Readonly<Record<string, DataBackend>>;

export type DataBackendName = keyof typeof rows;

export const dataBackends: Readonly<Record<DataBackendName, DataBackend>> = rows;
// The cast: the keys of a literal.
export const dataBackendNames = Object.keys(rows) as readonly DataBackendName[];

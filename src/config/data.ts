/**
 * The data backends. To add one: a row here, its opening in `runtime/compose/compose-bytes.ts`, where the compiler asks for it, and its
 * file in `backends/data`. The settings of its clusters are in `clusters.ts` and `upstreams.ts`.
 */

import type { OptionalPackage } from '../base/optional-packages.ts';
import { awsApi } from '../ports/trace.ts';
import { poolFields } from './clusters.ts';

interface DataBackend {
  /** Where its bytes are after the process has ended: gone, kept, or never stored. */
  readonly bytes: 'last' | 'end with the process' | 'are discarded';
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
  /** Its clusters ask for money for each request, so they are neither probed often nor scrubbed unasked. */
  readonly isPaid?: true;
  /** The part of `SVC_MEMORY_MAX` for writes is one in so many. */
  readonly writePart: number;
  readonly packages?: readonly OptionalPackage[];
  /** What traces call it, where that is not its name here. */
  readonly system?: string;
}

const rows = {
  memory: { bytes: 'end with the process', list: 'SVC_POOL_CLUSTERS', fields: [], writePart: 2 },
  file: { bytes: 'last', list: 'SVC_POOL_CLUSTERS', fields: ['dir'], isOnDisks: true, writePart: 2 },
  'cluster-pool': {
    bytes: 'last',
    list: 'SVC_POOL_CLUSTERS',
    fields: poolFields,
    marksItself: true,
    hasPools: true,
    // A write holds its whole chunk of 4 MiB in the driver's memory until it is stored, so many of them regularly reach the bound;
    // with other backends most of a write's bytes are in the kernel.
    writePart: 4,
    packages: ['koffi'],
    system: 'ceph',
  },
  'upstream-store': {
    bytes: 'last',
    list: 'SVC_UPSTREAMS',
    fields: [],
    marksItself: true,
    isPaid: true,
    writePart: 2,
    system: awsApi,
  },
  noop: { bytes: 'are discarded', list: 'SVC_POOL_CLUSTERS', fields: [], writePart: 2 },
} as const satisfies Readonly<Record<string, DataBackend>>;

export type DataBackendName = keyof typeof rows;

export const dataBackends: Readonly<Record<DataBackendName, DataBackend>> = rows;
// The cast: the keys of a literal.
export const dataBackendNames = Object.keys(rows) as readonly DataBackendName[];

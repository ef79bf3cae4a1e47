/**
 * The metadata backends. To add one: a row here, a file with its settings beside this one, and its opening in
 * `runtime/compose/open-metadata.ts`, where the compiler asks for it.
 */

interface MetadataBackend {
  /** Who can share the metadata: one process, the processes of a machine, or several machines. */
  readonly scope: 'process' | 'machine' | 'network';
  /** The setting that names its servers. */
  readonly servers?: 'SVC_WIDECOL_HOSTS' | 'SVC_KV_PD_ENDPOINTS';
  readonly needsDataDir?: true;
}

const rows = {
  memory: { scope: 'process' },
  embedded: { scope: 'machine', needsDataDir: true },
  'wide-column': { scope: 'network', servers: 'SVC_WIDECOL_HOSTS' },
  'ordered-kv': { scope: 'network', servers: 'SVC_KV_PD_ENDPOINTS' },
} as const satisfies Readonly<Record<string, MetadataBackend>>;

export type MetadataBackendName = keyof typeof rows;

export const metadataBackends: Readonly<Record<MetadataBackendName, MetadataBackend>> = rows;
// The cast: the keys of a literal.
export const metadataBackendNames = Object.keys(rows) as readonly MetadataBackendName[];

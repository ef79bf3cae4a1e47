/** Rows about the clusters that chunks are kept on, about the health of storage, fsck, the scrub, and the wrapping of keys. */
import {
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { type AdminRows, bucketName, count, isoTime, longText, next, paging, seconds } from './row.ts';

/** A share of new writes. */
export const weight = jsonInteger({ min: 0, max: 1_000_000 });

const cluster = jsonObject({
  id: jsonText(),
  state: jsonText(),
  weight,
  since: jsonOptional(isoTime),
  listed: jsonBoolean,
  emptiedAt: jsonOptional(isoTime),
});

const impact = jsonObject({
  bucket: bucketName,
  manifests: count,
  bytes: count,
  stuck: count,
  openUploads: count,
  refusesWrites: jsonBoolean,
  atLeast: jsonBoolean,
});

export const clusterRows = {
  ListClusters: {
    on: 'GET /clusters',
    lists: { clusters: ['clusters/{id}'] },
    doc: 'Lists the clusters with their states and weights.',
    reply: jsonObject({ clusters: jsonRows(cluster) }),
  },
  GetCluster: {
    on: 'GET /clusters/:id',
    tagged: true,
    doc: 'Shows the state and the weight of a cluster.',
    reply: cluster,
  },
  ActivateCluster: {
    on: 'POST /clusters/:id/activate',
    records: ['state', 'weight'],
    conditional: true,
    doc: 'Makes a pending cluster take new writes.',
    body: jsonObject({ weight }),
    reply: cluster,
  },
  PutClusterWeight: {
    on: 'PUT /clusters/:id/weight',
    records: ['weight'],
    conditional: true,
    doc: 'Sets the share of new writes that a cluster takes.',
    body: jsonObject({ weight }),
    reply: cluster,
  },
  DrainCluster: {
    on: 'POST /clusters/:id/drain',
    records: ['state'],
    conditional: true,
    doc: 'Stops new writes to a cluster; `evacuate` also moves its bytes to others.',
    body: jsonObject({ mode: jsonChoice(['readonly', 'evacuate']) }),
    reply: cluster,
  },
  UndrainCluster: {
    on: 'POST /clusters/:id/undrain',
    records: ['state'],
    conditional: true,
    doc: 'Lets a cluster that is drained take new writes again.',
    reply: cluster,
  },
  GetDrainProgress: {
    on: 'GET /clusters/:id/drain-progress',
    doc: 'Shows what is left on a cluster, and whether it can be removed.',
    reply: jsonObject({
      cluster: jsonText(),
      state: jsonText(),
      since: isoTime,
      manifests: count,
      bytes: count,
      stuck: count,
      failed: count,
      openUploads: count,
      chunks: jsonOptional(count),
      gcQueue: count,
      slotsSeen: count,
      slots: count,
      seenAt: jsonOptional(isoTime),
      deregisterReady: jsonBoolean,
      reasons: jsonRows(longText),
    }),
  },
  GetDrainImpact: {
    on: 'GET /clusters/:id/drain-impact',
    lists: { buckets: ['buckets/{bucket}'] },
    doc: 'Shows which buckets a drain of a cluster would affect.',
    query: { after: paging.after },
    reply: jsonObject({ cluster: jsonText(), buckets: jsonRows(impact), next }),
  },
} as const satisfies AdminRows;

const warnings = jsonRows(longText);

export const storageRows = {
  GetStorageMeta: {
    on: 'GET /storage/meta',
    doc: 'Shows the health of the metadata backend.',
    reply: jsonObject({
      backend: jsonText(),
      nodes: jsonRows(
        jsonObject({
          name: jsonText(),
          dataCenter: jsonText(),
          rack: jsonText(),
          releaseVersion: jsonText(),
          schemaVersion: jsonText(),
          state: jsonText(),
        }),
      ),
      replicationFactor: jsonOptional(count),
      warnings,
    }),
  },
  GetStorageData: {
    on: 'GET /storage/data',
    lists: { clusters: ['clusters/{cluster}'], pools: ['clusters/{cluster}'] },
    doc: 'Shows the health of the clusters and pools that store bytes.',
    reply: jsonObject({
      backend: jsonText(),
      clusters: jsonRows(jsonObject({ cluster: jsonText(), status: longText })),
      pools: jsonRows(
        jsonObject({
          cluster: jsonText(),
          pool: jsonText(),
          namespace: jsonText(),
          state: jsonChoice(['ok', 'reachable', 'error']),
          BytesUsed: count,
          ChunkCount: count,
          BytesFree: jsonOptional(count),
          error: jsonOptional(longText),
        }),
      ),
      warnings,
    }),
  },
  GetStorageClasses: {
    on: 'GET /storage/classes',
    doc: 'Shows bytes and objects of each storage class, as last sampled.',
    reply: jsonObject({
      classes: jsonRows(jsonObject({ class: jsonText(), bytes: count, objects: count })),
      pools_by_class: jsonMap(jsonText()),
      sampledAt: jsonOptional(seconds),
    }),
  },
  GetStorageHealth: {
    on: 'GET /storage/health',
    doc: 'Says whether storage is healthy, with every warning.',
    reply: jsonObject({ ok: jsonBoolean, warnings, source: jsonText() }),
  },
  GetHealthHistory: {
    on: 'GET /storage/health/history',
    doc: 'Shows each change of the health of storage in the last 24 hours, as a worker saw it once a minute.',
    reply: jsonObject({
      /** The beginning of the day, or of the record where that is later. Absent before the first probe. */
      since: jsonOptional(isoTime),
      until: isoTime,
      /** The oldest first; the first one is what was in force at `since`. `more`: warnings that are left out. */
      changes: jsonRows(
        jsonObject({ at: isoTime, ok: jsonBoolean, warnings, source: jsonText(), more: jsonOptional(count) }),
      ),
      /** Older changes of the day are left out, because there were more than are kept. */
      isCut: jsonBoolean,
    }),
  },
} as const satisfies AdminRows;

// Rows about fsck, the scrub, and the wrapping of keys.

const fsck = jsonObject({
  state: jsonChoice(['running', 'done']),
  fix: jsonBoolean,
  deep: jsonBoolean,
  at: jsonOptional(jsonText()),
  slotsSeen: count,
  slots: count,
  buckets: count,
  versions: count,
  parts: count,
  named: count,
  stored: count,
  leaving: count,
  underway: count,
  unjudged: count,
  fixed: count,
  findings: jsonMap(count),
  found: count,
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
});

const scrub = {
  state: jsonChoice(['running', 'done']),
  position: jsonOptional(jsonAny),
  versions: count,
  parts: count,
  chunks: count,
  bytes: count,
  damaged: count,
  unread: count,
  oldestUncheckedSeconds: count,
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
  completeFrom: jsonOptional(seconds),
};
const damaged = jsonObject({
  kind: jsonChoice(['damaged', 'missing']),
  detail: longText,
  cluster: jsonText(),
  extent: jsonText(),
  bucket: bucketName,
  bucketId: jsonText(),
  key: jsonText(),
  version: jsonOptional(jsonText()),
  uploadId: jsonOptional(jsonText()),
  part: jsonOptional(count),
  chunks: count,
  foundAt: seconds,
});

const rewrapping = jsonObject({
  state: jsonChoice(['running', 'done']),
  buckets: count,
  signingKeys: count,
  objects: count,
  uploads: count,
  current: count,
  failed: count,
  bucket: jsonOptional(bucketName),
  lastFailure: jsonOptional(
    jsonObject({ bucket: bucketName, key: jsonOptional(longText), reason: longText }),
  ),
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
});

export const maintenanceRows = {
  GetFsck: {
    on: 'GET /fsck',
    doc: 'Shows the comparison of metadata and data that runs, or the last one.',
    reply: fsck,
  },
  StartFsck: {
    on: 'POST /fsck',
    doc: 'Begins to compare metadata and data; `fix` repairs, `deep` reads every byte.',
    body: jsonObject({ fix: jsonOptional(jsonBoolean), deep: jsonOptional(jsonBoolean) }),
    reply: fsck,
    status: 202,
  },
  GetRewrapKeys: {
    on: 'GET /keys/rewrap',
    doc: 'Shows how far the wrapping of stored keys is, or its last result.',
    reply: rewrapping,
  },
  RewrapKeys: {
    on: 'POST /keys/rewrap',
    doc: 'Begins to wrap every stored key again under the current version of its wrapping key.',
    reply: rewrapping,
    status: 202,
  },
  GetKeyProvider: {
    on: 'GET /keys/provider',
    doc: 'Asks the key provider whether it answers, and shows the circuit breaker of this process.',
    reply: jsonObject({
      provider: jsonChoice(['none', 'local-hsm', 'transit', 'cloud-kms', 'pkcs11']),
      state: jsonOptional(jsonChoice(['ok', 'failed'])),
      problem: jsonOptional(longText),
      circuit: jsonOptional(jsonChoice(['closed', 'open'])),
      failures: jsonOptional(count),
      lastFailure: jsonOptional(jsonObject({ at: seconds, reason: longText })),
    }),
  },
  GetScrub: {
    on: 'GET /scrub',
    lists: { damagedList: ['buckets/{bucket}', 'clusters/{cluster}'] },
    doc: 'Shows the pass of the scrub, and the damage that it found.',
    reply: jsonObject({ ...scrub, damagedList: jsonRows(damaged) }),
  },
  StartScrub: {
    on: 'POST /scrub',
    doc: 'Begins a pass of the scrub.',
    reply: jsonObject(scrub),
    status: 202,
  },
} as const satisfies AdminRows;

/** The operations between sites: a site brings its versions to another with their ids (docs/adr/0020-replicated-versions-keep-their-ids.md). */

/** The largest document (`src/metadata/objects/replica.ts`). */
const bodyMax = 256 * 1024;

export const replicaOperations = {
  GetReplicaSite: { on: 'GET bucket ?replica', action: 's3:ReplicateObject', judges: 'each' },
  ReplicateObject: {
    adds: true,
    on: 'PUT object ?replica',
    streams: true,
    events: ['ObjectCreated:Put'],
  },
  ReplicateUpload: { adds: true, on: 'POST object ?uploads ?replica', action: 's3:ReplicateObject', bodyMax },
  ReplicateState: {
    adds: true,
    on: 'PUT object ?replica-state',
    action: 's3:ReplicateObject',
    bodyMax,
    events: ['ObjectRemoved'],
  },
  ReplicateDelete: { on: 'DELETE object ?replica', events: ['ObjectRemoved'] },
} as const;

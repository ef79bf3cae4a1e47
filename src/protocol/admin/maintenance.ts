/** Rows about fsck, the scrub, and the wrapping of keys. */
import {
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { type AdminRows, bucketName, count, longText, seconds } from './row.ts';

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

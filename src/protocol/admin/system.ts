/** Rows about the installation and the process that answers. */
import {
  jsonBoolean,
  jsonChoice,
  jsonList,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { logLine } from './observability.ts';
import { type AdminRows, count, isoTime, longText } from './row.ts';
import { task } from './workers.ts';

// The row about the installation on one page.

const requests = {
  seconds: count,
  requests: count,
  refused: count,
  failed: count,
  perSecond: jsonNumber,
};

const gateway = jsonObject({
  host: jsonText(),
  address: jsonText(),
  state: jsonChoice(['up', 'silent']),
  version: jsonText(),
  runtime: jsonText(),
  startedAt: isoTime,
  beatAt: isoTime,
  uptimeSeconds: count,
  processes: count,
  processesUp: count,
  leads: jsonList(jsonText(), { max: 100 }),
  requests: jsonObject(requests),
});

const bytes = { usedBytes: jsonOptional(count), freeBytes: jsonOptional(count) };

export const statusRows = {
  GetStatus: {
    on: 'GET /status',
    lists: {
      pools: ['clusters/{cluster}'],
      tasks: ['buckets/{bucket}/tasks', 'clusters/{cluster}/tasks'],
      errors: ['buckets/{bucket}', 'accounts/{account}'],
    },
    doc: 'Shows the installation on one page: gateways, capacity, health, work that is left, the requests of the last minute and the last errors. `missing` names parts that could not be read in time.',
    reply: jsonObject({
      ok: jsonBoolean,
      time: isoTime,
      warnings: jsonRows(longText),
      missing: jsonRows(longText),
      gateways: jsonRows(gateway),
      metadata: jsonRows(
        jsonObject({
          backend: jsonText(),
          name: jsonText(),
          state: jsonText(),
          ...bytes,
          sizeUnknown: jsonOptional(longText),
        }),
      ),
      pools: jsonRows(
        jsonObject({
          backend: jsonText(),
          cluster: jsonText(),
          pool: jsonText(),
          state: longText,
          ...bytes,
        }),
      ),
      work: jsonRows(
        jsonObject({
          worker: jsonText(),
          state: jsonText(),
          of: jsonOptional(jsonText()),
          left: jsonOptional(count),
          isLeftCut: jsonOptional(jsonBoolean),
          perSecond: jsonOptional(jsonNumber),
          oldestSeconds: jsonOptional(count),
          etaSeconds: jsonOptional(count),
        }),
      ),
      tasks: jsonRows(task),
      requests: jsonObject({
        ...requests,
        processes: count,
        p50Ms: jsonOptional(jsonNumber),
        p99Ms: jsonOptional(jsonNumber),
      }),
      errors: jsonRows(logLine),
    }),
  },
} as const satisfies AdminRows;

// Rows about this process and the installation: version, settings, leases, and the deletion backlog.

/** A text, or null for a setting that is unset. */
const valueOrUnset = jsonOptional(longText);

export const systemRows = {
  GetVersion: {
    on: 'GET /version',
    doc: 'Shows the version of this build and its backends.',
    reply: jsonObject({
      version: jsonText(),
      runtime: jsonText(),
      metadata: jsonText(),
      data: jsonText(),
      region: jsonText(),
      features: jsonList(jsonText(), { max: 100 }),
    }),
  },
  ListSettings: {
    on: 'GET /settings',
    doc: 'Lists the settings in force in the process that answers, with their sources; secrets are masked.',
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          name: jsonText(),
          value: valueOrUnset,
          default: valueOrUnset,
          source: jsonChoice(['flag', 'env', 'default']),
          doc: longText,
        }),
      ),
    }),
  },
  ListLeases: {
    on: 'GET /leases',
    doc: 'Lists the leases of background work: who holds each, and until when.',
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          name: jsonText(),
          holder: jsonText(),
          generation: count,
          expires: isoTime,
          isHeld: jsonBoolean,
        }),
      ),
    }),
  },
  GetGcBacklog: {
    on: 'GET /gc',
    lists: { clusters: ['clusters/{cluster}'] },
    doc: 'Shows what is queued for deletion, by cluster. `isCut`: there is more than was counted.',
    reply: jsonObject({
      clusters: jsonRows(jsonObject({ cluster: jsonText(), extents: count, oldestSeconds: count })),
      elsewhere: count,
      isCut: jsonBoolean,
    }),
  },
} as const satisfies AdminRows;

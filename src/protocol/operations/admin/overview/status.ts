/** The row about the installation on one page. */
import {
  jsonBoolean,
  jsonChoice,
  jsonList,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../../formats/json.ts';
import { logLine } from '../observability.ts';
import { type AdminRows, count, isoTime, longText } from '../row.ts';
import { task } from '../workers.ts';

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

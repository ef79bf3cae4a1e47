/** Rows about this process and the installation: version, settings, leases, and the deletion backlog. */
import {
  jsonBoolean,
  jsonChoice,
  jsonList,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../../formats/json.ts';
import { type AdminRows, count, isoTime, longText } from '../row.ts';

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

/** Rows about the targets of events and their dead letters. */
import {
  jsonAny,
  jsonBoolean,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../formats/json.ts';
import { failingFields } from './replication.ts';
import { type AdminRows, bucketName, count, isoTime, longText, moment, next, paging } from './row.ts';

const letters = jsonObject({
  target: jsonOptional(jsonText()),
  bucket: jsonOptional(bucketName),
  id: jsonOptional(jsonText()),
  since: jsonOptional(moment),
  until: jsonOptional(moment),
});

export const notifyRows = {
  GetNotifyTargets: {
    on: 'GET /notify/targets',
    doc: 'Shows how many events wait for each target, and whether the target takes them.',
    reply: jsonObject({
      targets: jsonRows(
        jsonObject({
          id: jsonText(),
          type: jsonText(),
          /** Absent for a target that the settings no longer have. */
          envelope: jsonOptional(jsonText()),
          ...failingFields,
          queued: count,
          oldestSeconds: count,
          perSecond: jsonNumber,
          deadLetters: count,
        }),
      ),
    }),
  },
  ListDeadLetters: {
    on: 'GET /notify/dead-letters',
    doc: 'Lists the events that could not be delivered, the newest first.',
    query: paging,
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          time: isoTime,
          since: isoTime,
          requestId: jsonText(),
          target: jsonText(),
          id: longText,
          attempts: count,
          error: longText,
          message: jsonAny,
        }),
      ),
      next,
    }),
  },
  RedriveNotifications: {
    on: 'POST /notify/redrive',
    bucketIn: 'body',
    doc: 'Queues dead letters again, by target, bucket, id or time.',
    body: letters,
    reply: jsonObject({ redriven: count, isTruncated: jsonBoolean }),
  },
  DiscardNotifications: {
    on: 'POST /notify/discard',
    bucketIn: 'body',
    doc: 'Deletes dead letters, by target, bucket, id or time.',
    body: letters,
    reply: jsonObject({ discarded: count, isTruncated: jsonBoolean }),
  },
} as const satisfies AdminRows;

/** Rows about the targets of events and their dead letters. */
import {
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { failingFields } from './replication.ts';
import {
  type AdminRows,
  bucketName,
  count,
  isoTime,
  lettersAbout,
  longText,
  mention,
  moment,
  next,
  noResource,
  paging,
  scope,
} from './row.ts';

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
    lists: { targets: ['notify/targets/{id}'] },
    doc: 'Shows how many events wait for each target, and whether the target takes them.',
    reply: jsonObject({
      targets: jsonRows(
        jsonObject({
          id: jsonText(),
          type: jsonText(),
          /** Absent for a target that the settings no longer have. */
          envelope: jsonOptional(jsonText()),
          /** Absent too for a target that was configured without a list. */
          accounts: jsonOptional(jsonRows(jsonText())),
          ...failingFields,
          queued: count,
          oldestSeconds: count,
          perSecond: jsonNumber,
          deadLetters: count,
        }),
      ),
    }),
  },
  TestNotifyTarget: {
    on: 'POST /notify/targets/:target/test',
    doc: 'Sends one s3:TestEvent to a target at once, and says what came back.',
    reply: jsonObject({
      delivered: jsonBoolean,
      /** Where it was not delivered: whether the target would take other messages, and what it answered. */
      failure: jsonOptional(
        jsonObject({ kind: jsonChoice(['refused', 'failed', 'lost', 'unavailable']), error: longText }),
      ),
      milliseconds: count,
      message: jsonAny,
    }),
  },
  ListDeadLetters: {
    on: 'GET /notify/dead-letters',
    lists: { rows: lettersAbout },
    doc: 'Lists the events that could not be delivered, the newest first.',
    query: paging,
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          time: isoTime,
          since: isoTime,
          requestId: jsonText(),
          bucket: jsonOptional(bucketName),
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
    names: {
      bucket: scope('buckets/{bucket}/notify/redrive'),
      target: mention('notify/targets/{target}/redrive'),
      id: noResource('The handler asks for the bucket and the target of the letter.'),
    },
    lists: { letters: lettersAbout },
    doc: 'Queues dead letters again, by target, bucket, id or time.',
    body: letters,
    reply: jsonObject({ redriven: count, isTruncated: jsonBoolean }),
  },
  DiscardNotifications: {
    on: 'POST /notify/discard',
    names: {
      bucket: scope('buckets/{bucket}/notify/discard'),
      target: mention('notify/targets/{target}/discard'),
      id: noResource('The handler asks for the bucket and the target of the letter.'),
    },
    lists: { letters: lettersAbout },
    doc: 'Deletes dead letters, by target, bucket, id or time.',
    body: letters,
    reply: jsonObject({ discarded: count, isTruncated: jsonBoolean }),
  },
} as const satisfies AdminRows;

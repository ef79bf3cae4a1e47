/** Rows about the background workers, and about the long tasks that they and commands work on. */
import {
  jsonBoolean,
  jsonChoice,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { type AdminRows, bucketName, count, longText, next, pagingBy, scope, seconds } from './row.ts';

const lastError = jsonOptional(jsonObject({ at: seconds, message: longText }));

/** What operators have asked of a worker. */
const asked = {
  paused: jsonOptional(jsonObject({ by: longText, at: seconds, reason: jsonOptional(longText) })),
  runAt: jsonOptional(seconds),
};

const worker = jsonObject({
  worker: jsonText(),
  state: jsonChoice(['never-ran', 'failing', 'stopped', 'silent', 'busy', 'idle', 'pausing', 'paused']),
  process: jsonOptional(jsonText()),
  generation: jsonOptional(count),
  since: jsonOptional(seconds),
  beatAt: jsonOptional(seconds),
  units: jsonOptional(count),
  lastUnit: jsonOptional(
    jsonObject({ endedAt: seconds, tookMs: jsonNumber, outcome: jsonChoice(['busy', 'idle']) }),
  ),
  failures: jsonOptional(count),
  lastError,
  progress: jsonOptional(
    jsonObject({
      of: jsonText(),
      done: count,
      perSecond: jsonNumber,
      backlog: jsonOptional(count),
      oldestSeconds: jsonOptional(count),
      etaSeconds: jsonOptional(count),
      isBacklogCut: jsonOptional(jsonBoolean),
    }),
  ),
  ...asked,
});

/** What the requests to a worker answer: what operators asked of it, and whether a process runs it. */
const control = jsonObject({
  worker: jsonText(),
  isRunning: jsonBoolean,
  ...asked,
});

const amount = jsonObject({ count, bytes: jsonOptional(count) });
const rate = jsonObject({ count: jsonNumber, bytes: jsonOptional(jsonNumber) });

const taskKinds = [
  'backup',
  'evacuation',
  'force-empty',
  'fsck',
  'import',
  'inventory',
  'lifecycle',
  'reshard',
  'resync',
  'rewrap',
  'scrub',
] as const;

export const task = jsonObject({
  kind: jsonChoice(taskKinds),
  name: jsonText({ max: 4096 }),
  bucket: jsonOptional(bucketName),
  cluster: jsonOptional(jsonText()),
  state: jsonChoice(['running', 'waiting', 'paused', 'done', 'failed']),
  why: jsonOptional(longText),
  worker: jsonOptional(jsonText()),
  of: jsonText({ doc: 'What `count` counts, such as `versions`.' }),
  done: amount,
  left: jsonOptional(amount),
  isLeftCut: jsonOptional(jsonBoolean),
  perSecond: jsonOptional(rate),
  etaSeconds: jsonOptional(count),
  startedAt: seconds,
  updatedAt: seconds,
  finishedAt: jsonOptional(seconds),
  lastError,
});

export const tasksPageDefault = 100;

export const workerRows = {
  ListWorkers: {
    on: 'GET /workers',
    doc: 'Lists the background workers: where they run, what they did last, and what is left.',
    reply: jsonObject({ workers: jsonRows(worker) }),
  },
  RunWorker: {
    on: 'POST /workers/:name/run',
    doc: 'Lets a background worker begin its next unit now, and a pass that has a schedule with it.',
    reply: control,
    status: 202,
  },
  PauseWorker: {
    on: 'POST /workers/:name/pause',
    records: ['state'],
    doc: 'Stops a background worker in every process until it is resumed.',
    body: jsonObject({ reason: jsonOptional(jsonText({ max: 500 })) }),
    reply: control,
  },
  ResumeWorker: {
    on: 'POST /workers/:name/resume',
    records: ['state'],
    doc: 'Lets a background worker run again that was paused.',
    reply: control,
  },
  ListTasks: {
    on: 'GET /tasks',
    names: { bucket: scope('buckets/{bucket}/tasks'), cluster: scope('clusters/{cluster}/tasks') },
    lists: { tasks: ['buckets/{bucket}', 'clusters/{cluster}'] },
    doc: 'Lists long tasks: how much is done and left, how fast, until when, and why a task does not go on.',
    query: {
      kind: jsonOptional(jsonChoice(taskKinds)),
      state: jsonOptional(jsonChoice(['active', 'ended'])),
      bucket: jsonOptional(bucketName),
      cluster: jsonOptional(jsonText()),
      ...pagingBy(tasksPageDefault),
    },
    reply: jsonObject({ tasks: jsonRows(task), next }),
  },
} as const satisfies AdminRows;

/** Reads the audit rows, events and tasks that a gateway has recorded. */

import type { Context } from '../../src/context.ts';
import { readAudit } from '../../src/metadata/audit.ts';
import { type HourlyQueue, rowsOfHour, scanHours } from '../../src/metadata/background/hourly-queues.ts';
import type { AuditRow } from '../../src/metadata/records/audit.ts';
import type { NotifyTask, QueueRow } from '../../src/metadata/records/queues.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import type { EventRecord } from '../../src/ports/event-sink.ts';

type World = Pick<Context, 'metadata' | 'clock'>;

/** Every audit row of the last hours, the oldest first. */
export async function auditRows({ metadata, clock }: World): Promise<readonly AuditRow[]> {
  const now = clock.now();
  const span = { start: now - 3 * 3_600_000, end: now + 60_000 };
  const wanted = { ...span, max: 10_000, matches: () => true, rest: async () => {} };
  const { rows, next } = await readAudit(metadata, wanted);
  if (next !== undefined) throw new Error('there are more audit rows than a test looks at');
  return rows.toReversed();
}

/** A clock that ticks at every call, so that rows sort in the order of their requests. */
export function tickingClock(): Clock {
  let now = Date.now();
  return { ...systemClock, now: () => (now += 1) };
}

/** A clock on which so much time passes between two readings of `elapsed`, as on a store that is slow or fast. */
export function steppingClock(stepMs: number, clock: Clock = systemClock): Clock {
  let elapsed = 0;
  return { ...clock, elapsed: () => (elapsed += stepMs) };
}

/** The request and its result in short form: `PutObject bucket:b/key 200`. */
export const inShort = ({ action, resource, key, status, error }: AuditRow): string =>
  `${action} ${resource}${key === undefined ? '' : `/${key}`} ${status}${error === undefined ? '' : ` ${error}`}`;

/** The tasks of a queue, the oldest first. */
export async function tasksOf<Task>({ metadata }: World, queue: HourlyQueue): Promise<readonly Task[]> {
  const rows: QueueRow[] = [];
  for await (const hour of scanHours(metadata, queue))
    rows.push(...(await rowsOfHour(metadata, hour).next(10_000)).map(({ row }) => row));
  return rows.toSorted((a, b) => a.due - b.due || (a.id < b.id ? -1 : 1)).map(({ task }) => task as Task);
}

/** Every event in the queue. */
export async function eventsOf(world: World): Promise<readonly EventRecord[]> {
  const tasks = await tasksOf<NotifyTask & { readonly message: { readonly Records?: EventRecord[] } }>(
    world,
    'notify',
  );
  const records = tasks.flatMap(({ message }) => message.Records ?? []);
  // The store's clock determines the hour of the rows; on an engine it differs from the test's.
  return records.sort((a, b) => (a.eventTime < b.eventTime ? -1 : a.eventTime > b.eventTime ? 1 : 0));
}

/**
 * Keeps the events of all buckets as notifications would deliver them. Their rows are taken out of the commits that would queue them, so an
 * event is there as soon as its change is answered, and no queue grows.
 */
import { applicationEvents } from '../../domain/events/events.ts';
import { type HourlyRow, hourlyQueues, type NotifyTask } from '../../metadata/records/queues.ts';
import type { EventRecord } from '../../ports/event-sink.ts';
import type { MetadataStore, SideChange } from '../../ports/metadata-store.ts';

export type { EventRecord };

export interface ObservedEvent extends EventRecord {
  /** The ARNs of the targets that the notifications of the bucket name for this event. */
  readonly targets: readonly string[];
}

/** A change that would queue an event: for the application, which gets all events, or for a target of a notification. */
interface Queued {
  readonly record: EventRecord;
  /** Of the target; absent for the application. */
  readonly arn?: string | undefined;
}

interface Split {
  readonly events: readonly Queued[];
  readonly others: readonly SideChange[];
}

/** Test events, which the target of a new notification gets, are dropped. */
function split(changes: readonly SideChange[]): Split {
  const events: Queued[] = [];
  const others = changes.filter((change) => {
    if (!('put' in change)) return true;
    // The casts: each table has one type of row, and each queue one type of task.
    if (change.at.table.name === applicationEvents) {
      events.push(change.put as Queued);
      return false;
    }
    if (change.at.table.name !== hourlyQueues.name) return true;
    const { queue, task } = change.put as Pick<HourlyRow, 'queue' | 'task'>;
    if (queue !== 'notify') return true;
    const { arn, message } = task as NotifyTask;
    const [record] = (message as { readonly Records?: readonly EventRecord[] }).Records ?? [];
    if (record !== undefined) events.push({ record, arn });
    return false;
  });
  return { events, others };
}

/** @param observe is called with each event, once its commit has applied */
export function observeEvents(
  metadata: MetadataStore,
  observe: (event: ObservedEvent) => void,
): MetadataStore {
  const commit: MetadataStore['commit'] = async (at, changes, options = {}) => {
    const { events, others } = split(options.then ?? []);
    const outcome = await metadata.commit(at, changes, { ...options, then: others });
    if (outcome.applied) joinTargets(events).forEach(observe);
    return outcome;
  };
  const apply: MetadataStore['apply'] = async (changes) => {
    const { events, others } = split(changes);
    if (others.length > 0) await metadata.apply(others);
    joinTargets(events).forEach(observe);
  };
  const own = new Map<PropertyKey, unknown>([
    ['commit', commit],
    ['apply', apply],
  ]);
  // The methods of the store need it as `this`.
  return new Proxy(metadata, {
    get(store, name) {
      if (own.has(name)) return own.get(name);
      const value: unknown = Reflect.get(store, name, store);
      const bound = typeof value === 'function' ? value.bind(store) : value;
      if (typeof value === 'function') own.set(name, bound);
      return bound;
    },
  });
}

/** One event for each record of the application; the rows of targets tell where else it goes. */
function joinTargets(queued: readonly Queued[]): readonly ObservedEvent[] {
  return queued.flatMap(({ record, arn }) => {
    if (arn !== undefined) return [];
    const same = queued.filter((other) => isSame(other.record, record));
    return [{ ...record, targets: same.flatMap((other) => other.arn ?? []) }];
  });
}

const isSame = (one: EventRecord, other: EventRecord): boolean =>
  one.eventName === other.eventName && one.s3.object.sequencer === other.s3.object.sequencer;

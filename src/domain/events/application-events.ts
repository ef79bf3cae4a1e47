/**
 * Events for the application that embeds the gateway (`onEvent` of `openGateway`). At least once: a row of the `notify` queue for each event, in
 * the lane of its bucket, so that a handler that fails or hangs for one bucket delays no other. At best effort: the handler is called after
 * the commit, and nothing is stored.
 */

import type { Context } from '../../context.ts';
import type { ObjectEvent, OnEvent } from '../../ports/application.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Delivery, EventRecord, EventSink, EventSinks, SinkMessage } from '../../ports/event-sink.ts';
import { type MetadataStore, type SideChange, table } from '../../ports/metadata-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { TargetedRule } from '../configurations/notification.ts';
import { decodeKey } from './envelope.ts';

/** No id of SVC_NOTIFY_TARGETS begins with it. */
const targetPrefix = '@application/';
const isApplicationTarget = (id: string): boolean => id.startsWith(targetPrefix);

/** Every event of a bucket, for the application. */
export const applicationRule = (bucket: string): TargetedRule => ({
  Event: [],
  arn: `${targetPrefix}${bucket}`,
  service: 'sqs',
});

/** Whether the events of an application are stored; undefined where none has a handler. */
export const deliveryTo = ({
  application,
}: Pick<Context, 'application'>): 'at-least-once' | 'best-effort' | undefined =>
  application?.onEvent === undefined ? undefined : (application.eventDelivery ?? 'at-least-once');

/** The id of an event that `eventChanges` makes, `<sequencer>/<request id>/…`. */
const requestIdIn = (id: string): string => id.split('/')[1] ?? '';

function toObjectEvent(id: string, record: EventRecord): ObjectEvent {
  const { bucket, object } = record.s3;
  const { size, eTag, versionId } = object;
  const { sourceIPAddress } = record.requestParameters;
  return {
    id,
    name: record.eventName,
    time: record.eventTime,
    bucket: bucket.name,
    account: bucket.ownerIdentity.principalId,
    key: decodeKey(object.key),
    ...(size === undefined ? {} : { size }),
    ...(eTag === undefined ? {} : { etag: eTag }),
    ...(versionId === undefined ? {} : { versionId }),
    sequencer: object.sequencer,
    principal: record.userIdentity.principalId,
    ...(sourceIPAddress === '' ? {} : { remote: sourceIPAddress }),
    requestId: requestIdIn(id),
  };
}

interface Calling {
  readonly onEvent: OnEvent;
  readonly clock: Pick<Clock, 'sleep'>;
  /** After it a call counts as failed. */
  readonly timeoutMs: number;
}

/** @throws what the handler throws, an Error after the timeout, and the signal's reason when it aborts first */
async function call(
  { onEvent, clock, timeoutMs }: Calling,
  event: ObjectEvent,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const answered = new AbortController();
  const late = clock.sleep(timeoutMs, AbortSignal.any([signal, answered.signal])).then(() => {
    if (answered.signal.aborted) return;
    signal.throwIfAborted();
    throw new Error(`onEvent took longer than ${timeoutMs} ms (notifyTimeout)`);
  });
  try {
    await Promise.race([late, (async () => onEvent(event))()]);
  } finally {
    answered.abort();
  }
}

/** The targets of the settings, and the application for the events of every bucket. */
export function withApplicationSink(sinks: EventSinks | undefined, calling: Calling): EventSinks {
  const deliver = async (messages: readonly SinkMessage[], signal: AbortSignal): Promise<Delivery> => {
    let delivered = 0;
    for (const { id, body } of messages) {
      // The cast: only rows of `applicationRule` come here, in the form of the public API.
      const [record] = (JSON.parse(body) as { readonly Records: readonly [EventRecord] }).Records;
      try {
        await call(calling, toObjectEvent(id, record), signal);
      } catch (cause) {
        if (signal.aborted && delivered === 0) throw signal.reason;
        if (signal.aborted) return { delivered };
        return { delivered, failure: { kind: 'failed', error: `onEvent: ${textOf(cause)}` } };
      }
      delivered += 1;
    }
    return { delivered };
  };
  const sink: EventSink = { deliver, close: async () => {} };
  return {
    open: async (id) =>
      isApplicationTarget(id) ? sink : ((await sinks?.open(id)) ?? 'this process has no sinks'),
    close: async () => sinks?.close(),
  };
}

const textOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

export const applicationEvents = 'application_events';
/** Rows of this table are never stored: `callAfterCommits` takes them out of the commit. */
const unstored = table<{ readonly id: string; readonly record: object }>()({
  name: applicationEvents,
  kind: 'plain',
  partition: [],
  sort: ['id'],
  columns: { id: 'text', record: 'json' },
});

/** Part of a commit: the handler is called once the commit has applied. */
export const unstoredEvent = (id: string, record: EventRecord): SideChange => ({
  at: { table: unstored, in: {} },
  put: { id, record },
});

/** Events whose handler has not returned; further ones are dropped. */
const runningMax = 1_024;

/** The store, and the handler after its commits. `settle` waits for the calls that run. */
export function callAfterCommits(
  store: MetadataStore,
  { telemetry, ...calling }: Calling & { readonly telemetry: Pick<Telemetry, 'log'> },
): { readonly metadata: MetadataStore; settle(): Promise<void> } {
  const running = new Set<Promise<void>>();
  const never = new AbortController().signal;
  const start = ({ put }: { readonly put: object }): void => {
    // The cast: `unstoredEvent` makes these rows.
    const { id, record } = put as { readonly id: string; readonly record: EventRecord };
    const event = toObjectEvent(id, record);
    const about = { event: event.name, bucket: event.bucket, key: event.key };
    if (running.size >= runningMax) {
      telemetry.log('WARN', 'an event was dropped: onEvent is slower than the changes', about, 'onEvent');
      return;
    }
    const done = call(calling, event, never)
      .catch((cause: unknown) => telemetry.log('WARN', 'onEvent failed', { ...about, cause }, 'onEvent'))
      .finally(() => running.delete(done));
    running.add(done);
  };
  const split = (changes: readonly SideChange[]) => {
    const isEvent = (change: SideChange): change is SideChange & { readonly put: object } =>
      change.at.table === unstored && 'put' in change;
    return [changes.filter(isEvent), changes.filter((change) => change.at.table !== unstored)] as const;
  };
  const commit: MetadataStore['commit'] = async (at, changes, options) => {
    const [events, then] = split(options?.then ?? []);
    if (events.length === 0) return store.commit(at, changes, options);
    const outcome = await store.commit(at, changes, { ...options, then });
    if (outcome.applied) events.forEach(start);
    return outcome;
  };
  const apply: MetadataStore['apply'] = async (changes) => {
    const [events, stored] = split(changes);
    if (stored.length > 0) await store.apply(stored);
    events.forEach(start);
  };
  const own = new Map<PropertyKey, unknown>([
    ['commit', commit],
    ['apply', apply],
    ['behind', store.behind ?? store],
  ]);
  const metadata = new Proxy(store, {
    get(_, name) {
      if (own.has(name)) return own.get(name);
      const value: unknown = Reflect.get(store, name, store);
      const bound = typeof value === 'function' ? value.bind(store) : value;
      if (typeof value === 'function') own.set(name, bound);
      return bound;
    },
  });
  return {
    metadata,
    async settle() {
      await Promise.allSettled(running);
    },
  };
}

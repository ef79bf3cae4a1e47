/** A gateway whose buckets send events to webhooks, and a notify worker to start and stop. */
import { expect, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { NotifyTask } from '../../src/metadata/records/queues.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { type Backend, openGateway, operator } from './gateway.ts';
import { tasksOf } from './recorded.ts';
import type { Received } from './webhook-sink.ts';

interface Target {
  readonly id: string;
  readonly url: string;
  readonly [field: string]: string | boolean;
}

export const rule = (sink: string, { prefix = '', suffix = '' } = {}): string =>
  `<QueueConfiguration><Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event><Filter><S3Key>
   <FilterRule><Name>prefix</Name><Value>${prefix}</Value></FilterRule>
   <FilterRule><Name>suffix</Name><Value>${suffix}</Value></FilterRule></S3Key></Filter>
   <Queue>arn:aws:sqs:default:123456789012:${sink}</Queue></QueueConfiguration>`;

/** A target for each sink, with the sink's name as its id. */
export const targetsAt = (sinks: Readonly<Record<string, { readonly url: string }>>): readonly Target[] =>
  Object.entries(sinks).map(([id, { url }]) => ({ id, url }));

/**
 * A clock that can be ahead of the real one, so that a day of retries passes at once.
 * @param slower by how many times the monotonic time passes more slowly, for what must happen before a rest ends however busy the machine is
 */
export function hurriedClock(slower = 1) {
  let ahead = 0;
  let sleeps = 0;
  const hurry = (ms: number): void => {
    ahead += ms;
  };
  return {
    ...systemClock,
    now: () => systemClock.now() + ahead,
    elapsed: () => systemClock.elapsed() / slower + ahead,
    sleep(...call: Parameters<Clock['sleep']>) {
      sleeps += 1;
      return systemClock.sleep(...call);
    },
    hurry,
    /** Hurries, and lets the worker look at its queue four times, which takes 40 ms, and longer on a busy machine. */
    async pass(ms: number): Promise<void> {
      hurry(ms);
      const before = sleeps;
      while (sleeps < before + 4) await new Promise((resolve) => setTimeout(resolve, 5));
    },
  };
}

export async function openNotifyWorld({
  backend = 'memory',
  targets,
  rules = targets.map(({ id }) => rule(id)),
  settings = {},
  slower,
  wrap,
}: {
  readonly backend?: Backend;
  readonly targets: readonly Target[];
  /** By default each target gets the events of all objects. */
  readonly rules?: readonly string[];
  readonly settings?: Readonly<Record<string, string>>;
  /** As in `hurriedClock`. */
  readonly slower?: number;
  readonly wrap?: (context: Context) => Context;
}) {
  const clock = hurriedClock(slower);
  const warned: Fields[] = [];
  const world = await openGateway({
    backend,
    clock,
    ...(wrap === undefined ? {} : { wrap }),
    telemetry: {
      ...silentTelemetry,
      log: (level, _, fields = {}) => void (level === 'WARN' && warned.push(fields)),
    },
    settings: {
      SVC_NOTIFY_TARGETS: JSON.stringify(
        targets.map((target) => ({ type: 'webhook', accounts: ['*'], ...target })),
      ),
      SVC_EGRESS_ALLOW: '127.0.0.0/8',
      SVC_NOTIFY_INTERVAL: '10ms',
      ...settings,
    },
  });
  const { client, context } = world;
  await client.put('/bucket');
  const body = `<NotificationConfiguration>${rules.join('')}</NotificationConfiguration>`;
  const put = await client.put('/bucket?notification', { body });
  if (put.status !== 200) throw new Error(put.text);
  const running: { readonly stop: AbortController; readonly ended: Promise<unknown> }[] = [];
  const worker = {
    start() {
      const stop = new AbortController();
      running.push({ stop, ended: deliverNotifications(context)(stop.signal) });
    },
    async stop() {
      for (const { stop, ended } of running.splice(0)) {
        stop.abort();
        await ended;
      }
    },
  };
  return {
    world,
    client,
    clock,
    warned,
    worker,
    queued: () => tasksOf<NotifyTask>(context, 'notify'),
    letters: async () => (await world.as({ credential: operator }).get('/?notify-dlq')).all('Error'),
    async [Symbol.asyncDispose]() {
      await worker.stop();
      await world[Symbol.asyncDispose]();
    },
  };
}

type EventRecord = {
  readonly eventName: string;
  readonly s3: { readonly object: { readonly key: string; readonly eTag?: string } };
};
export const recordsIn = (received: readonly Pick<Received, 'body'>[]): readonly EventRecord[] =>
  received.flatMap(
    ({ body }) => (JSON.parse(body) as { readonly Records?: readonly EventRecord[] }).Records ?? [],
  );
export const keysIn = (received: readonly Pick<Received, 'body'>[]): readonly string[] =>
  recordsIn(received).map(({ s3 }) => s3.object.key);

/** Waits until no event is queued, however long a busy machine takes, as long as the queue gets shorter. */
export async function drained(
  { queued, clock }: Pick<Awaited<ReturnType<typeof openNotifyWorld>>, 'queued' | 'clock'>,
  { hurryMs = 0 } = {},
): Promise<void> {
  for (let left = Number.POSITIVE_INFINITY; left > 0; )
    await vi.waitFor(async () => {
      clock.hurry(hurryMs);
      const { length } = await queued();
      expect(length).toBeLessThan(left);
      left = length;
    }, until);
}
/** For `vi.waitFor`. */
export const until = { timeout: 180_000, interval: 10 };

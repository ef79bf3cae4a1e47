/** A bucket whose access log a test fills, delivers and reads back. */

import type { Context } from '../../src/context.ts';
import type { AccessLogTask } from '../../src/metadata/records/queues.ts';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import { deliverAccessLogs } from '../../src/workers/deliveries.ts';
import { type Backend, type GatewayWorld, openGateway } from './gateway.ts';
import { onCount } from './metric-calls.ts';
import { tasksOf } from './recorded.ts';
import { type VirtualClock, virtualClock } from './virtual-clock.ts';

const never = new AbortController().signal;

export const logging = (more = '', prefix = 'p/'): string =>
  `<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket>${more.startsWith('<TargetGrants') ? more : ''}<TargetPrefix>${prefix}</TargetPrefix>${more.startsWith('<TargetGrants') ? '' : more}</LoggingEnabled></BucketLoggingStatus>`;
export const partitioned = (by: string): string =>
  `<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>${by}</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat>`;

export const policy = (statement: object = {}, more: readonly object[] = []): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { Service: 'logging.s3.amazonaws.com' },
        Action: 's3:PutObject',
        Resource: 'arn:aws:s3:::logs/*',
        ...statement,
      },
      ...more,
    ],
  });

export interface LogWorld extends AsyncDisposable {
  readonly world: GatewayWorld;
  readonly clock: VirtualClock;
  readonly warned: Fields[];
  readonly kept: string[];
  /** Some requests, one line each. */
  ask(count: number): Promise<void>;
  deliver(context?: Context): Promise<void>;
  keys(): Promise<string[]>;
  /** All lines of the objects in the target bucket. */
  delivered(): Promise<string[]>;
  queued(): Promise<readonly AccessLogTask[]>;
}

export async function must(
  answer: Promise<{ readonly status: number; readonly text: string }>,
): Promise<void> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(text);
}

export async function openLogs(
  backend: Backend = 'memory',
  {
    settings = {},
    body = logging(),
    grant = policy(),
  }: {
    readonly settings?: Readonly<Record<string, string>>;
    readonly body?: string;
    readonly grant?: string | undefined;
  } = {},
): Promise<LogWorld> {
  // An engine has its own clock, and finds hours that are long over empty for some minutes.
  const isOwnClock = backend !== 'memory' && backend !== 'embedded+file';
  const clock = virtualClock(isOwnClock ? Date.now() : Date.UTC(2026, 1, 5, 23, 59, 50));
  const warned: Fields[] = [];
  const kept: string[] = [];
  const world = await openGateway({
    backend,
    clock,
    settings,
    telemetry: {
      ...silentTelemetry,
      log: (level, _, fields = {}) => void (level === 'WARN' && warned.push(fields)),
      ...onCount({ svc_access_log_kept_total: ({ why }) => void kept.push(why) }),
    },
  });
  const { client, context } = world;
  for (const bucket of ['bucket', 'logs']) await must(client.put(`/${bucket}`));
  if (grant !== '') await must(client.put('/logs?policy', { body: grant }));
  await must(client.put('/bucket?logging', { body }));
  let generation = 0;
  let asked = 0;
  const keys = async (): Promise<string[]> => (await client.get('/logs?list-type=2')).all('Key');
  return {
    world,
    clock,
    warned,
    kept,
    async ask(count) {
      for (let n = 0; n < count; n += 1) await client.get(`/bucket/key-${asked++}`);
      await context.lateWrites.flush();
    },
    async deliver(on = context) {
      generation += 1;
      await deliverAccessLogs(on, generation)(never);
    },
    keys,
    async delivered() {
      const texts: string[] = [];
      for (const key of await keys()) texts.push((await client.get(`/logs/${key}`)).text);
      return texts.flatMap((text) => text.trimEnd().split('\n'));
    },
    queued: () => tasksOf<AccessLogTask>(context, 'access-log'),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

/** The keys that lines are about, in the order of the requests. */
export const keysIn = (lines: readonly string[]): string[] =>
  lines
    .map((line) => / (key-\d+) /.exec(line)?.[1] ?? line)
    .sort((a, b) => Number(a.slice(4)) - Number(b.slice(4)));
export const firstKeys = (count: number): string[] => Array.from({ length: count }, (_, n) => `key-${n}`);

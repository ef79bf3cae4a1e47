/** Workers with a task for each of many buckets: neither their number nor a damaged one of them holds up anything else. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../../src/context.ts';
import { type Emptying, emptyings } from '../../../src/domain/buckets/force-empty.ts';
import { type Resharding, reshardings } from '../../../src/domain/buckets/reshard.ts';
import { advanceProgress } from '../../../src/domain/common/task-progress.ts';
import { type Resync, resyncs } from '../../../src/domain/replication/resync.ts';
import { putTask, type TaskKind } from '../../../src/metadata/background/tasks.ts';
import { emptyBuckets, reshardBuckets } from '../../../src/workers/buckets.ts';
import { replicate } from '../../../src/workers/deliveries.ts';
import {
  ShardPanic,
  ShardRests,
  type Unit,
  unsupervised,
  type WorkerServices,
} from '../../../src/workers/worker.ts';
import { countRows, type SeenRows } from '../../support/counted-rows.ts';
import { DamagedRows } from '../../support/damaged-rows.ts';
import { faulty } from '../../support/faulty.ts';
import { type GatewayWorld, openGateway } from '../../support/gateway.ts';
import { slowClock } from '../../support/virtual-clock.ts';

const startedAt = Date.UTC(2026, 0, 1);

interface State {
  readonly bucket: string;
  readonly phase?: string;
  readonly finishedAt?: number;
}

interface Running {
  readonly services?: WorkerServices;
  readonly lease?: AbortController;
  /** Called after each unit, until it returns true. */
  ended(): boolean;
}
type Run = (world: GatewayWorld, running: Running) => Promise<void>;

/** As the supervisor does: a run that failed begins anew. */
const inUnits =
  (start: (context: Context, generation: number, services: WorkerServices) => Unit): Run =>
  async ({ context }, { services = unsupervised, lease = new AbortController(), ended }) => {
    let unit = start(context, 1, services);
    do
      await unit(lease.signal).catch((cause: unknown) => {
        if (!lease.signal.aborted) expect(cause).toBeInstanceOf(ShardPanic);
        unit = start(context, 1, services);
      });
    while (!ended() && !lease.signal.aborted);
  };

/** Its unit ends with the lease, and each of its rounds counts as a unit. */
const replicating: Run = async (
  { context },
  { services = unsupervised, lease = new AbortController(), ended },
) => {
  const roundEnded = (): void => {
    if (ended()) lease.abort();
  };
  await replicate(context, 1, { ...services, roundEnded })(lease.signal).catch((cause: unknown) => {
    if (!lease.signal.aborted) throw cause;
  });
};

interface Worker {
  readonly kind: TaskKind<State>;
  /** The bucket is gone, so the first step of the task finishes it. */
  readonly begun: (bucket: string) => State;
  readonly run: Run;
}

const workers: Readonly<Record<string, Worker>> = {
  'force-empty': {
    kind: emptyings as TaskKind<State>,
    begun: (bucket): Emptying => ({
      ...{ bucket, phase: 'uploads', requestId: 'r', startedAt, kept: 0 },
      deleted: { versions: 0, markers: 0, uploads: 0 },
    }),
    run: inUnits(emptyBuckets),
  },
  reshard: {
    kind: reshardings as TaskKind<State>,
    begun: (bucket): Resharding => ({
      ...{ bucket, from: 1, to: 2, shardsDone: 0, rowsMoved: 0, startedAt },
    }),
    run: inUnits(reshardBuckets),
  },
  replicator: {
    kind: resyncs as TaskKind<State>,
    begun: (bucket): Resync => ({
      ...{ bucket, status: 'all', read: 0, queued: 0, startedAt, requestId: 'r' },
    }),
    run: replicating,
  },
};

const numbered = (each: number): string => String(each).padStart(32, '0');

async function putTasks({ context }: GatewayWorld, { kind, begun }: Worker, count: number, ended = {}) {
  for (let each = 0; each < count; each += 1) {
    const state = { ...begun(`gone-${each}`), ...ended };
    const { bucket } = state;
    const progress = advanceProgress(undefined, { bucket, startedAt, done: { count: 0 } }, startedAt);
    await putTask(context.metadata, kind, { name: numbered(each), state, progress, expect: 'absent' });
  }
}

const hasFinished = ({ phase, finishedAt }: State): boolean => phase === 'done' || finishedAt !== undefined;

/** A world that counts the tasks which finish, and where reads of the rows of some buckets fail. */
async function countingWorld() {
  const damaged = new DamagedRows();
  const failing = new Set<string>();
  let finished = 0;
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    const counting = faulty(metadata, {
      async get(at, key, ...rest) {
        const { name = '' } = at.in as { readonly name?: string };
        if (at.table.name === 'buckets' && failing.has(name)) throw new Error('refused');
        return metadata.get(at, key, ...rest);
      },
      async commit(at, changes, ...rest) {
        for (const change of changes)
          if (at.table.name === 'tasks' && 'put' in change) {
            const { state } = change.put as unknown as { readonly state: State };
            if (hasFinished(state)) finished += 1;
          }
        return metadata.commit(at, changes, ...rest);
      },
    });
    return damaged.wrap({ ...context, metadata: counting });
  };
  const settings = { SVC_REPLICATION_INTERVAL: '10ms' };
  return { world: await openGateway({ settings, wrap }), damaged, failing, finished: () => finished };
}

/** A world whose finished tasks are listed on a store that answers at once, and how many of them were read. */
async function finishedWorld(worker: Worker, count: number) {
  const clock = slowClock(startedAt);
  const seen: SeenRows = { rows: 0, onPage: () => {} };
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: countRows(context.metadata, 'tasks', seen).metadata,
  });
  const world = await openGateway({ clock, backend: 'embedded+file', wrap });
  await putTasks(world, worker, count, { phase: 'done', finishedAt: startedAt });
  return { world, clock, seen };
}

describe.each(Object.entries(workers))('%s', (_, worker) => {
  test('a unit works on a few of many tasks, and the next ones on those behind them, past a damaged one', async () => {
    const opened = await countingWorld();
    await using world = opened.world;
    const count = 120;
    await putTasks(world, worker, count);
    opened.damaged.patterns.add(new RegExp(`^tasks .*"${numbered(3)}"`));
    let units = 0;
    let before = 0;
    const ended = (): boolean => {
      expect(opened.finished() - before).toBeLessThanOrEqual(20);
      before = opened.finished();
      units += 1;
      return units === 12 || before === count - 1;
    };
    await worker.run(world, { ended });
    expect(opened.finished()).toBe(count - 1);
  });

  test('tasks that fail again and again keep no others from their turn', async () => {
    const opened = await countingWorld();
    await using world = opened.world;
    const count = 120;
    await putTasks(world, worker, count);
    for (let each = 0; each < 40; each += 1) opened.failing.add(`gone-${each}`);
    const clock = { time: startedAt, now: () => clock.time };
    const shards = new ShardRests(clock, () => undefined);
    let units = 0;
    const ended = (): boolean => {
      // Longer than the longest rest of a task.
      clock.time += 180_000;
      units += 1;
      return units === 16;
    };
    await worker.run(world, { services: { ...unsupervised, shards }, ended });
    expect(opened.finished()).toBe(count - 40);
  });

  test('many finished tasks are passed over in turns on the event loop', async () => {
    const count = 1_000;
    const opened = await finishedWorld(worker, count);
    await using world = opened.world;
    const sleeps = (): number => opened.clock.slept.filter((ms) => ms === 0).length;
    const before = sleeps();
    await worker.run(world, { ended: () => true });
    expect(opened.seen.rows).toBeGreaterThanOrEqual(count);
    expect(sleeps() - before).toBeGreaterThan(count / 2);
  });

  test('a worker that has lost its lease reads no further tasks', async () => {
    const count = 1_000;
    const opened = await finishedWorld(worker, count);
    await using world = opened.world;
    const lease = new AbortController();
    opened.seen.onPage = () => {
      if (opened.seen.rows > 0) lease.abort();
    };
    await worker.run(world, { lease, ended: () => true });
    expect(opened.seen.rows).toBeGreaterThan(0);
    expect(opened.seen.rows).toBeLessThan(count / 2);
  });
});

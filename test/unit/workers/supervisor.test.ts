import { describe, expect, test } from 'vitest';
import { memoryStore } from '../../../src/backends/metadata/memory-store.ts';
import { acquireLease, leaderLease } from '../../../src/metadata/background/leases.ts';
import { systemRandom } from '../../../src/ports/random.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { leaseTtlMs } from '../../../src/workers/leadership.ts';
import { supervise } from '../../../src/workers/supervisor.ts';
import {
  inSteps,
  ShardPanic,
  ShardRests,
  ShardRound,
  type Unit,
  type Worker,
} from '../../../src/workers/worker.ts';
import { faulty } from '../../support/faulty.ts';
import { onCount, onSet } from '../../support/metric-calls.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

const minute = 60_000;

function world() {
  const clock = virtualClock();
  const random = systemRandom();
  const metadata = memoryStore({ clock, random });
  const panics: string[] = [];
  const leads: string[] = [];
  const telemetry = {
    ...silentTelemetry,
    ...onCount({ svc_worker_panic_total: ({ worker, shard }) => void panics.push(`${worker}/${shard}`) }),
    ...onSet({
      svc_worker_leader: ({ worker }, on) => void leads.push(`${worker} ${on === 1 ? 'on' : 'off'}`),
    }),
  };
  return { clock, random, metadata, telemetry, panics, leads };
}

const worker = (unit: Unit, given: Partial<Worker> = {}): Worker => ({
  name: 'w',
  leased: true,
  everyMs: minute,
  start: () => unit,
  ...given,
});

/** A promise that a test resolves from outside. */
function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

describe('a worker', () => {
  test('runs one unit after the other: at once when busy, after its interval when idle', async () => {
    const ctx = world();
    const stop = new AbortController();
    const at: number[] = [];
    const answers: ('busy' | 'idle')[] = ['busy', 'busy', 'idle', 'idle'];
    const running = supervise(
      ctx,
      worker(async () => {
        at.push(ctx.clock.elapsed());
        return answers.shift() ?? 'idle';
      }),
      stop.signal,
    );
    await ctx.clock.advance(2 * minute);
    expect(at).toEqual([0, 0, 0, minute, 2 * minute]);
    stop.abort();
    await running;
  });

  test('never has two units at a time, however long one takes', async () => {
    const ctx = world();
    const stop = new AbortController();
    let inside = 0;
    let most = 0;
    const running = supervise(
      ctx,
      worker(async (signal) => {
        most = Math.max(most, ++inside);
        await ctx.clock.sleep(10 * minute, signal);
        inside -= 1;
        return 'busy';
      }),
      stop.signal,
    );
    await ctx.clock.advance(60 * minute);
    stop.abort();
    await running;
    expect(most).toBe(1);
  });

  test('takes back its gauges when a run fails, too, and sets them again in the next one', async () => {
    const ctx = world();
    const stop = new AbortController();
    const log: string[] = [];
    const start = inSteps<object, undefined>({
      begin: () => void log.push('set'),
      retire: () => log.push('taken back'),
      async step() {
        if (log.length === 1) throw new Error('the first run fails');
        return { is: 'idle' };
      },
    });
    const running = supervise(ctx, worker(start({}), { start: () => start({}) }), stop.signal);
    await ctx.clock.advance(minute);
    expect(log).toEqual(['set', 'taken back', 'set']);
    stop.abort();
    await running;
    expect(log).toEqual(['set', 'taken back', 'set', 'taken back']);
  });

  test('is stopped only after the unit in progress has finished', async () => {
    const ctx = world();
    const stop = new AbortController();
    const unit = gate();
    let ended = false;
    const running = supervise(
      ctx,
      worker(async () => {
        await unit.opened;
        return 'idle';
      }),
      stop.signal,
    ).then(() => {
      ended = true;
    });
    await ctx.clock.settle();
    stop.abort();
    await ctx.clock.advance(minute);
    expect(ended).toBe(false);
    unit.open();
    await running;
    expect(ctx.leads).toEqual(['w on', 'w off']);
    expect(ctx.panics).toEqual([]);
  });

  test('waits for what its steps have begun, however a run ends, before it stops or runs again', async () => {
    const ctx = world();
    const stop = new AbortController();
    const log: string[] = [];
    let runs = 0;
    const start = inSteps<object, { readonly isAborted: () => boolean; readonly run: number }>({
      begin(_context, _generation, { signal }) {
        runs += 1;
        log.push(`begun ${runs}`);
        return { isAborted: () => signal.aborted, run: runs };
      },
      async step(_context, { run }) {
        if (run === 1) throw new Error('the first run fails');
        return { is: 'idle' };
      },
      async end({ isAborted, run }) {
        if (isAborted()) log.push(`aborted ${run}`);
        await ctx.clock.sleep(10_000);
        log.push(`ended ${run}`);
      },
    });
    const running = supervise(ctx, worker(start({}), { start: () => start({}) }), stop.signal);
    await ctx.clock.advance(minute);
    expect(log).toEqual(['begun 1', 'aborted 1', 'ended 1', 'begun 2']);
    // Between two units.
    stop.abort();
    await ctx.clock.advance(minute);
    await running;
    expect(log.slice(4)).toEqual(['aborted 2', 'ended 2']);
    expect(ctx.leads).toEqual(['w on', 'w off', 'w on', 'w off']);
  });
});

describe('a panic', () => {
  /** Supervises a worker whose runs fail after the given times; returns the pauses between them. */
  async function panicking(lasts: readonly number[], given: Partial<Worker> = {}) {
    const ctx = world();
    const stop = new AbortController();
    const began: number[] = [];
    const ended: number[] = [];
    const running = supervise(
      ctx,
      worker(async (signal) => {
        began.push(ctx.clock.elapsed());
        await ctx.clock.sleep(lasts[began.length - 1] ?? 0, signal);
        ended.push(ctx.clock.elapsed());
        throw new Error('boom');
      }, given),
      stop.signal,
    );
    await ctx.clock.advance(30 * minute);
    stop.abort();
    await running;
    return { ctx, pauses: ended.slice(0, 7).map((end, run) => ((began[run + 1] ?? 0) - end) / 1000) };
  }

  test('costs a pause of 1 s, 5 s, 30 s, then 2 min each', async () => {
    const { pauses } = await panicking([]);
    expect(pauses).toEqual([1, 5, 30, 120, 120, 120, 120]);
  });

  test('is a first one again after a run of five healthy minutes, and not after less', async () => {
    const after = await panicking([0, 0, 0, 5 * minute, 0]);
    expect(after.pauses.slice(0, 5)).toEqual([1, 5, 30, 1, 5]);
    const before = await panicking([0, 0, 0, 5 * minute - 1, 0]);
    expect(before.pauses.slice(0, 5)).toEqual([1, 5, 30, 120, 120]);
  });

  test('is counted for its worker and shard, and followed by leader-off', async () => {
    const ctx = world();
    const stop = new AbortController();
    const unit: Unit = async () => {
      throw new ShardPanic('7', { cause: new Error('boom') });
    };
    const running = supervise(ctx, worker(unit, { name: 'gc', leased: false }), stop.signal);
    await ctx.clock.settle();
    expect(ctx.panics).toEqual(['gc/7']);
    expect(ctx.leads).toEqual(['gc on', 'gc off']);
    stop.abort();
    await running;
  });

  test('of one shard costs the others a pause of 1 s, and the shard rests 1 s, 5 s, 30 s, then 2 min', async () => {
    const ctx = world();
    const stop = new AbortController();
    const shards = new ShardRests(ctx.clock, () => undefined);
    const tried: number[] = [];
    const worked: number[] = [];
    const unit: Unit = async () => {
      worked.push(ctx.clock.elapsed());
      if (shards.isResting('bad')) return 'idle';
      tried.push(ctx.clock.elapsed());
      shards.failed('bad');
      throw new ShardPanic('bad', { cause: new Error('boom') });
    };
    const running = supervise(ctx, worker(unit, { everyMs: 1_000 }), stop.signal);
    await ctx.clock.advance(10 * minute);
    stop.abort();
    await running;
    const pauses = (times: readonly number[]) =>
      times.slice(1).map((time, at) => (time - (times[at] ?? 0)) / 1000);
    expect(pauses(tried).slice(0, 6)).toEqual([1, 5, 30, 120, 120, 120]);
    expect(Math.max(...pauses(worked))).toBe(1);
  });

  test('of a shard is forgotten after its success, and an operator’s request to run now ends the rest', () => {
    const clock = virtualClock();
    let runAt: number | undefined;
    const shards = new ShardRests(clock, () => runAt);
    for (let failure = 0; failure < 4; failure += 1) shards.failed('bad');
    expect([shards.isResting('bad'), shards.isResting('other')]).toEqual([true, false]);
    expect(shards.endsAt - clock.now()).toBe(2 * minute);
    clock.jump(1);
    runAt = clock.now();
    expect(shards.isResting('bad')).toBe(false);
    runAt = undefined;
    shards.succeeded('bad');
    expect(shards.isResting('bad')).toBe(false);
    shards.failed('bad');
    expect(shards.endsAt - clock.now()).toBe(1_000);
    clock.jump(1_000);
    expect([shards.isResting('bad'), shards.endsAt]).toEqual([false, Number.POSITIVE_INFINITY]);
  });

  test('of a shard ends with a request to run now also where the clock of this process is ten minutes ahead of the store', () => {
    const clock = virtualClock();
    let runAt: number | undefined = clock.now() - 20 * minute;
    const shards = new ShardRests(clock, () => runAt);
    shards.failed('bad');
    expect(shards.isResting('bad')).toBe(true);
    runAt = clock.now() - 10 * minute;
    expect(shards.isResting('bad')).toBe(false);
    shards.failed('bad');
    expect(shards.isResting('bad')).toBe(true);
  });

  test('of a shard does not end the unit: the others continue, and the first failure is thrown at the end', async () => {
    const shards = new ShardRests(virtualClock(), () => undefined);
    const round = new ShardRound({ shards }, new AbortController().signal);
    const worked: string[] = [];
    for (const id of ['1', '2', '3', '4'])
      await round.work({ id, name: `bucket-${id}` }, async () => {
        worked.push(id);
        if (id === '2' || id === '3') throw new Error(`of ${id}`);
      });
    expect(worked).toEqual(['1', '2', '3', '4']);
    expect(worked.filter((id) => round.isResting(id))).toEqual(['2', '3']);
    expect(() => round.end()).toThrow(new ShardPanic('bucket-2', { cause: new Error('of 2'), label: '' }));
  });

  test('of a shard that tenants name has no label of its own', async () => {
    const labelOf = async (shard: { readonly id: string; readonly name?: string }): Promise<unknown> => {
      const shards = new ShardRests(virtualClock(), () => undefined);
      const round = new ShardRound({ shards }, new AbortController().signal);
      await round.work(shard, () => Promise.reject(new Error('boom')));
      try {
        round.end();
      } catch (panic) {
        return panic instanceof ShardPanic ? [panic.message, panic.label] : panic;
      }
      return undefined;
    };
    expect(await labelOf({ id: '7' })).toEqual(['shard 7 failed', '7']);
    expect(await labelOf({ id: 'x', name: 'photos/daily' })).toEqual(['shard photos/daily failed', '']);
  });

  test('that an abort caused is no failure of the shard', async () => {
    const shards = new ShardRests(virtualClock(), () => undefined);
    const stop = new AbortController();
    const round = new ShardRound({ shards }, stop.signal);
    const interrupted = round.work({ id: '1' }, async () => {
      stop.abort(new Error('stopped'));
      stop.signal.throwIfAborted();
    });
    expect(await interrupted).toBe(false);
    expect(round.isResting('1')).toBe(false);
    expect(() => round.end()).not.toThrow();
  });

  test('releases the lease immediately, so that another process can lead', async () => {
    const ctx = world();
    const stop = new AbortController();
    const running = supervise(
      ctx,
      worker(async () => {
        throw new Error('boom');
      }),
      stop.signal,
    );
    await ctx.clock.settle();
    const next = await acquireLease(ctx.metadata, { name: leaderLease('w'), holder: 'other', ttlMs: 1 });
    expect(next?.generation).toBe(2);
    stop.abort();
    await running;
  });

  test('starts the worker afresh, thrown synchronously or while it starts too', async () => {
    const ctx = world();
    const stop = new AbortController();
    let starts = 0;
    const start = (): Unit => {
      starts += 1;
      if (starts === 1) throw new Error('cannot start');
      return () => {
        throw new Error('boom');
      };
    };
    const running = supervise(
      ctx,
      worker(async () => 'idle', { start }),
      stop.signal,
    );
    await ctx.clock.advance(7_000);
    expect(starts).toBe(3);
    stop.abort();
    await running;
  });

  test('leaves siblings alone', async () => {
    const ctx = world();
    const stop = new AbortController();
    let units = 0;
    const both = [
      worker(async () => {
        throw new Error('boom');
      }),
      worker(
        async () => {
          units += 1;
          return 'idle';
        },
        { name: 'sibling' },
      ),
    ].map((each) => supervise(ctx, each, stop.signal));
    await ctx.clock.advance(9 * minute + 1);
    expect(units).toBe(10);
    stop.abort();
    await Promise.all(both);
  });
});

describe('leadership', () => {
  test('is held by one of two processes, and passes on when that one stops', async () => {
    const ctx = world();
    const did: string[] = [];
    const process = (name: string, signal: AbortSignal) =>
      supervise(
        ctx,
        worker(
          async () => {
            did.push(name);
            return 'idle';
          },
          { everyMs: 1_000 },
        ),
        signal,
      );
    const [stopA, stopB] = [new AbortController(), new AbortController()];
    const a = process('a', stopA.signal);
    await ctx.clock.settle();
    const b = process('b', stopB.signal);
    await ctx.clock.advance(minute);
    expect(new Set(did)).toEqual(new Set(['a']));
    stopA.abort();
    await a;
    did.length = 0;
    await ctx.clock.advance(minute);
    expect(new Set(did)).toEqual(new Set(['b']));
    stopB.abort();
    await b;
  });

  test('outlasts units that take longer than the lease lives', async () => {
    const ctx = world();
    const stop = new AbortController();
    const running = supervise(
      ctx,
      worker(async (signal) => {
        await ctx.clock.sleep(10 * leaseTtlMs, signal);
        return 'idle';
      }),
      stop.signal,
    );
    for (let each = 0; each < 10; each += 1) {
      await ctx.clock.advance(leaseTtlMs);
      const taken = await acquireLease(ctx.metadata, { name: leaderLease('w'), holder: 'o', ttlMs: 1 });
      expect(taken).toBeUndefined();
    }
    stop.abort();
    await running;
  });

  test('when lost, aborts the run without a panic, and is requested again', async () => {
    const ctx = world();
    const stop = new AbortController();
    const aborted: number[] = [];
    const running = supervise(
      ctx,
      worker(async (signal) => {
        await ctx.clock.sleep(60 * minute, signal);
        if (signal.aborted) aborted.push(ctx.clock.elapsed());
        throw new Error('interrupted');
      }),
      stop.signal,
    );
    await ctx.clock.settle();
    // The store's clock jumps ahead, so the lease has expired and another process takes it.
    ctx.clock.jump(leaseTtlMs + 1);
    await acquireLease(ctx.metadata, { name: leaderLease('w'), holder: 'thief', ttlMs: 30_000 });
    await ctx.clock.advance(10_000);
    expect(aborted).toEqual([5_000]);
    expect(ctx.panics).toEqual([]);
    expect(ctx.leads).toEqual(['w on', 'w off']);
    await ctx.clock.advance(minute);
    expect(ctx.leads).toEqual(['w on', 'w off', 'w on']);
    stop.abort();
    await running;
  });

  test('is given up in time by a holder whose store fails or does not answer', async () => {
    for (const answer of [() => Promise.reject(new Error('down')), () => new Promise<never>(() => {})]) {
      const ctx = world();
      const stop = new AbortController();
      let isDown = false;
      let abortedAt = 0;
      const commit: typeof ctx.metadata.commit = (...given) =>
        isDown ? answer() : ctx.metadata.commit(...given);
      const metadata = faulty(ctx.metadata, { commit });
      const running = supervise(
        { ...ctx, metadata },
        worker(async (signal) => {
          isDown = true;
          await ctx.clock.sleep(60 * minute, signal);
          abortedAt ||= ctx.clock.elapsed();
          return 'idle';
        }),
        stop.signal,
      );
      await ctx.clock.advance(2 * minute);
      expect(abortedAt).toBe(leaseTtlMs);
      expect(ctx.panics).toEqual([]);
      isDown = false;
      stop.abort();
      await Promise.race([running, ctx.clock.advance(minute)]);
    }
  });

  test('backs off when the store cannot be asked for it', async () => {
    const ctx = world();
    const stop = new AbortController();
    const asked: number[] = [];
    const get: typeof ctx.metadata.get = () => {
      asked.push(ctx.clock.elapsed() / 1000);
      return Promise.reject(new Error('down'));
    };
    const running = supervise(
      { ...ctx, metadata: faulty(ctx.metadata, { get }) },
      worker(async () => 'idle'),
      stop.signal,
    );
    await ctx.clock.advance(40_000);
    expect(asked).toEqual([0, 1, 6, 36]);
    expect(ctx.panics).toEqual([]);
    stop.abort();
    await running;
  });
});

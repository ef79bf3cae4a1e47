/** The loop of a worker that works in steps. */
import { expect, test } from 'vitest';
import { inSteps, type Progress, unsupervised } from '../../../src/workers/worker.ts';

const counting = (log: string[]) =>
  inSteps<object, number>({
    retire: () => log.push('retired'),
    begin(_context, generation) {
      log.push(`begun under ${generation}`);
      return 0;
    },
    async step(_context, saved) {
      if (saved === 2) return { is: 'idle' };
      return { is: 'busy', saved: saved + 1, done: 10 };
    },
  });

test('a run begins once under the generation of its lease, and each step gets what the last one has saved', async () => {
  const log: string[] = [];
  const reports: Progress[] = [];
  const unit = counting(log)({}, 7, { ...unsupervised, report: (progress) => reports.push(progress) });
  const { signal } = new AbortController();
  expect([await unit(signal), await unit(signal), await unit(signal), await unit(signal)]).toEqual([
    'busy',
    'busy',
    'idle',
    'idle',
  ]);
  expect(log).toEqual(['begun under 7']);
  expect(reports).toEqual([{ done: 10 }, { done: 10 }]);
});

test('a process that stops leading retires once, and another run begins anew', async () => {
  const log: string[] = [];
  const leading = new AbortController();
  const worker = counting(log);
  const unit = worker({}, 1);
  await unit(leading.signal);
  await unit(leading.signal);
  leading.abort();
  expect(log).toEqual(['begun under 1', 'retired']);
  await worker({}, 2)(new AbortController().signal);
  expect(log.at(-1)).toBe('begun under 2');
});

test('a step that ends after the process has stopped leading leaves no gauge behind', async () => {
  for (const outcome of ['returns', 'throws']) {
    const leading = new AbortController();
    const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
    let gauge: number | undefined;
    const unit = inSteps<object, undefined>({
      begin: () => undefined,
      async step() {
        await lost;
        gauge = 5;
        if (outcome === 'throws') throw new Error('the lease was lost');
        return { is: 'idle' };
      },
      retire() {
        gauge = undefined;
      },
    })({}, 1);
    const ended = unit(leading.signal).catch(() => 'failed');
    leading.abort();
    lose();
    expect(await ended).toBe(outcome === 'throws' ? 'failed' : 'idle');
    expect(gauge).toBeUndefined();
  }
});

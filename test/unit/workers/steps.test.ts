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

test('a process that stops to lead retires once, and another run begins anew', async () => {
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

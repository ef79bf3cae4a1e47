/** Repeated failures are logged as one line and a count; other lines are not delayed. */
import { expect, test } from 'vitest';
import type { Fields } from '../../src/ports/telemetry.ts';
import { foldRepeats } from '../../src/telemetry/log.ts';

function open() {
  const lines: { level: string; message: string; fields: Fields | undefined }[] = [];
  const waiting: { ms: number; act: () => void }[] = [];
  const log = foldRepeats(
    (level, message, fields) => void lines.push({ level, message, fields }),
    (ms, act) => void waiting.push({ ms, act }),
  );
  const endWindow = (): void => {
    for (const { act } of waiting.splice(0)) act();
  };
  return { lines, log, endWindow };
}
const away = (port: number): Error =>
  new Error('the metadata store is unavailable', { cause: new Error(`no quorum on 127.0.0.1:${port}`) });

test('a failure of several workers is logged once, and then by a line a minute with the count and no stack', () => {
  const { lines, log, endWindow } = open();
  for (let i = 0; i < 500; i += 1)
    log('ERROR', 'a worker failed', { worker: `worker-${i % 7}`, cause: away(i) });
  expect(lines).toHaveLength(1);
  expect(lines[0]?.fields?.['cause']).toBeInstanceOf(Error);
  endWindow();
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatchObject({
    level: 'ERROR',
    message: 'a worker failed',
    fields: {
      repeated: 499,
      withinMs: 60_000,
      cause: 'the metadata store is unavailable: no quorum on 127.0.0.1:499',
    },
  });
  // In the next minute the first failure is logged in full again.
  log('ERROR', 'a worker failed', { worker: 'gc', cause: away(1) });
  expect(lines).toHaveLength(3);
  endWindow();
  expect(lines).toHaveLength(3);
});

test('what differs in its message, its cause or what it is about is logged', () => {
  const { lines, log } = open();
  log('ERROR', 'a worker failed', { cause: away(1) });
  log('ERROR', 'a worker failed', { cause: new Error('something else') });
  log('ERROR', 'a worker cannot reach its lease', { cause: away(1) });
  log('WARN', 'a worker failed', { cause: away(1) });
  for (const key of ['one', 'two', 'three'])
    log('WARN', 'a version could not be moved', { key, cause: away(1) });
  expect(lines).toHaveLength(7);
});

test('entries of a request, and entries that are no failures, are never folded', () => {
  const { lines, log } = open();
  for (let i = 0; i < 5; i += 1) {
    log('WARN', 'the metadata store is unavailable', { request_id: `${i}`, cause: away(1) });
    log('INFO', 'serving', {});
  }
  expect(lines).toHaveLength(10);
});

test('beyond a thousand kinds of failures all are logged', () => {
  const { lines, log } = open();
  for (let round = 0; round < 2; round += 1)
    for (let i = 0; i < 1_100; i += 1)
      log('WARN', 'x', { key: `key-${String.fromCharCode(97 + (i % 26))}${i}` });
  expect(lines).toHaveLength(1_100 + 100);
});

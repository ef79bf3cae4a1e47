/** More statements at once than the connections to Cassandra take. */
import cassandra from 'cassandra-driver';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Session } from '../../src/backends/metadata/wide-column/session.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';

const { BusyConnectionError, NoHostAvailableError } = cassandra.errors;
const perConnection = 2048;

/** A driver whose node is connected once, and answers after `answerMs`, or not at all. */
function driver(answerMs: number | undefined) {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'setInterval', 'clearInterval'] });
  onTestFinished(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });
  let unanswered = 0;
  let refused = 0;
  const send = async (): Promise<never> => {
    if (unanswered >= perConnection) {
      const busy = new BusyConnectionError('10.0.0.1:9042', perConnection, 1);
      // The first while the driver prepares a statement, the other when it executes one.
      refused += 1;
      if (refused % 2 === 0) throw busy;
      throw new NoHostAvailableError({ '10.0.0.1:9042': busy, '10.0.0.2:9042': 'Host considered as DOWN' });
    }
    unanswered += 1;
    if (answerMs === undefined) return new Promise<never>(() => undefined);
    await new Promise((answer) => setTimeout(answer, answerMs));
    unanswered -= 1;
    return { rows: [], wasApplied: () => true } as never;
  };
  vi.spyOn(cassandra.Client.prototype, 'execute').mockImplementation(send);
  vi.spyOn(cassandra.Client.prototype, 'batch').mockImplementation(send);
  return new Session({ hosts: ['10.0.0.1'], localDc: 'dc', keyspace: 'k' });
}

test('after a pause of a second, reads, writes and commits beyond those of a connection are all answered', async () => {
  const session = driver(1000);
  const statement = { query: 'UPDATE t SET a = ?', params: [1] };
  const work = Array.from({ length: 1000 }, () => [
    session.read('SELECT a FROM t', []),
    session.write([statement]),
    session.decide([statement]),
  ]).flat();
  const all = Promise.all(work);
  await vi.advanceTimersByTimeAsync(2200);
  await all;
});

test('while no node answers, a statement that waits is unavailable after 12 s, and a commit known not to have happened', async () => {
  const session = driver(undefined);
  const sent = Array.from({ length: perConnection }, () => session.read('SELECT a FROM t', []));
  const waiting = [
    session.read('SELECT a FROM t', []),
    session.decide([{ query: 'UPDATE t SET a = 1 IF b = 2', params: [] }]),
  ];
  const outcomes = Promise.allSettled(waiting);
  await vi.advanceTimersByTimeAsync(11_900);
  expect(await Promise.race([outcomes, Promise.resolve('waiting')])).toBe('waiting');
  await vi.advanceTimersByTimeAsync(400);
  for (const outcome of await outcomes)
    expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailable) });
  expect(sent).toHaveLength(perConnection);
});

test('no more than 8192 statements wait: another one is unavailable at once', async () => {
  const session = driver(undefined);
  const read = () => session.read('SELECT a FROM t', []);
  const all = Array.from({ length: perConnection + 8192 }, read);
  for (const each of all) each.catch(() => undefined);
  await vi.advanceTimersByTimeAsync(50);
  await expect(read()).rejects.toThrow('8192 statements wait');
  await vi.advanceTimersByTimeAsync(13_000);
});

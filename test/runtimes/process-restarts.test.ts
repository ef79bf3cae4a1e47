/** The processes of a node: their memory, and what clients see while they die repeatedly. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { isAlive, listServing, logLines } from '../support/node-processes.ts';
import { startServer, type TestServer } from '../support/server.ts';

const deaths = (server: TestServer) => logLines(server, 'a process died and is started again');

const patience = { timeout: 180_000 };

test('after all processes of a node were killed one is started within a second, and each slot counts its own deaths', async () => {
  const server = await startServer({ env: { SVC_PROCESSES: '2', SVC_FSYNC: 'never', SVC_WORKERS: '' } });
  try {
    for (let round = 1; round <= 2; round += 1) {
      await expect.poll(() => listServing(server).length, patience).toBe(2);
      for (const pid of listServing(server)) process.kill(pid, 'SIGKILL');
      await expect.poll(() => deaths(server).length, patience).toBe(2 * round);
      const [first, second] = deaths(server).slice(-2);
      // First the other process still serves; then no process does.
      expect(first?.pause_ms).toBe(round * 1_000);
      expect(second?.pause_ms).toBe(1_000);
    }
    await expect.poll(() => listServing(server).length, patience).toBeGreaterThan(0);
  } finally {
    await server.stop();
  }
});

test('a connection that a process got in the moment of its death is answered by another process, or reset', async () => {
  const server = await startServer({ env: { SVC_PROCESSES: '2', SVC_FSYNC: 'never', SVC_WORKERS: '' } });
  try {
    await expect.poll(() => listServing(server).length, patience).toBe(2);
    const [dying = 0] = listServing(server);
    // It gets a connection, and dies before it can say so.
    process.kill(dying, 'SIGSTOP');
    const outcomes: string[] = [];
    const asked = Array.from({ length: 8 }, async () => {
      const ask = fetch(server.url, { headers: { connection: 'close' } });
      const outcome = await ask.then(
        ({ status }) => `answered ${status}`,
        () => 'reset',
      );
      outcomes.push(outcome);
    });
    await expect.poll(() => outcomes, patience).toEqual(Array(asked.length - 1).fill('answered 200'));
    process.kill(dying, 'SIGKILL');
    await expect.poll(() => outcomes.length, patience).toBe(asked.length);
    await expect.poll(() => listServing(server).length, patience).toBe(2);
  } finally {
    await server.stop();
  }
});

test('counters of a node do not fall when one of its processes is killed', async () => {
  const server = await startServer({
    env: { SVC_PROCESSES: '2', SVC_FSYNC: 'never', SVC_WORKERS: '', SVC_METRICS_TOKEN: 'a-token-of-metrics' },
  });
  const readings = async () => {
    const reply = await fetch(`${server.url}/metrics`, {
      headers: { authorization: 'Bearer a-token-of-metrics', connection: 'close' },
    });
    const text = await reply.text();
    const of = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
    return {
      total: of('svc_http_operations_total\\{operation="ListBuckets"[^}]*\\}'),
      count: of('svc_http_request_duration_seconds_count\\{operation="ListBuckets"\\}'),
      memory: of('svc_memory_bytes\\{kind="heap"\\}'),
    };
  };
  try {
    await expect.poll(() => listServing(server).length, patience).toBe(2);
    // A connection each, so that both processes count.
    for (let n = 0; n < 40; n += 1) await fetch(server.url, { headers: { connection: 'close' } });
    const before = await readings();
    expect(before).toMatchObject({ total: 40, count: 40 });
    const killed = listServing(server)[0] as number;
    process.kill(killed, 'SIGKILL');
    await expect.poll(() => isAlive(killed), patience).toBe(false);
    const between = await readings();
    expect(between).toMatchObject({ total: 40, count: 40 });
    // Gauges of the ended process are gone.
    expect(between.memory).toBeLessThan(before.memory);
    await expect.poll(() => listServing(server).length, patience).toBe(2);
    await fetch(server.url, { headers: { connection: 'close' } });
    expect(await readings()).toMatchObject({ total: 41, count: 41 });
  } finally {
    await server.stop();
  }
});

test('a process that ends by a fault of memory is logged with the metadata file and the recovery page, and the node ends after five of them', async () => {
  const server = await startServer({ env: { SVC_PROCESSES: '2', SVC_FSYNC: 'never', SVC_WORKERS: '' } });
  const faults = () => logLines(server, 'a fault of memory ended a process');
  const hasEnded = (): boolean => server.process.exitCode !== null;
  try {
    await expect.poll(() => listServing(server).length, patience).toBe(2);
    process.kill(listServing(server)[0] as number, 'SIGBUS');
    await expect.poll(() => faults().length, patience).toBe(1);
    expect(faults()[0]).toMatchObject({
      level: 'ERROR',
      signal: 'SIGBUS',
      file: expect.stringMatching(/metadata\/data\.mdb$/),
      message: expect.stringContaining('docs/recovery.md'),
    });
    const kill = (): boolean => {
      for (const pid of listServing(server)) process.kill(pid, 'SIGSEGV');
      return hasEnded();
    };
    await expect.poll(kill, patience).toBe(true);
    expect(server.process.exitCode).toBe(1);
    expect(faults().length).toBeGreaterThanOrEqual(5);
    expect(logLines(server, 'too many processes')).toHaveLength(1);
  } finally {
    await server.stop();
  }
});

test('a process of several has a small young generation, unless the operator sets it', async () => {
  const optionsOf = (pid: number): string =>
    /NODE_OPTIONS=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1] ?? '';
  const env = { SVC_PROCESSES: '2', SVC_FSYNC: 'never', SVC_WORKERS: '' };
  for (const own of [{}, { NODE_OPTIONS: '--max-semi-space-size=32' }]) {
    const server = await startServer({ env: { ...env, ...own } });
    try {
      await expect.poll(() => listServing(server).length, patience).toBe(2);
      const [first = 0] = listServing(server);
      // V8 takes the last one.
      expect(
        optionsOf(first)
          .match(/--max-semi-space-size=\d+/g)
          ?.at(-1),
      ).toBe(own.NODE_OPTIONS ?? '--max-semi-space-size=16');
    } finally {
      await server.stop();
    }
  }
});

/** Pauses of workers and the progress of tasks over kills of a node with two processes. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { startServer, type TestServer } from '../support/server.ts';
import { sender } from './client.ts';

const until = { timeout: 180_000, interval: 100 };
const objects = 300;

interface TaskJson {
  readonly state: string;
  readonly why?: string;
  readonly startedAt: number;
  readonly done: { readonly count: number };
  readonly left?: { readonly count: number };
}

test('a pause and the progress of a task hold over kills of a node with two processes, and the task ends once', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-tasks-'));
  const start = () => startServer({ dataDir: join(directory, 'data'), env: { SVC_PROCESSES: '2' } });
  const asker = ({ url, credentials: { root } }: TestServer) => {
    const send = sender({ url, ...root });
    return async (method: string, path: string, body?: object) => {
      const answer = await send(method, path, body === undefined ? {} : { body: JSON.stringify(body) });
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.text === '' ? {} : JSON.parse(answer.text);
    };
  };
  const taskOf = async (ask: ReturnType<typeof asker>): Promise<TaskJson> =>
    (await ask('GET', '/admin/v1/tasks?kind=force-empty')).tasks[0];
  let server = await start();
  try {
    const send = sender({ url: server.url, ...server.credentials.root });
    expect((await send('PUT', '/bucket')).status).toBe(200);
    await Promise.all(
      Array.from({ length: objects }, (_, n) => send('PUT', `/bucket/${n}`, { body: 'content' })),
    );
    let ask = asker(server);
    await ask('POST', '/admin/v1/workers/force-empty/pause', { reason: 'held' });
    await ask('POST', '/admin/v1/buckets/bucket/force-empty');
    const { startedAt } = await taskOf(ask);
    await server.kill9();

    server = await start();
    ask = asker(server);
    // A worker that was not paused runs in the new processes; so the paused one could have.
    await vi.waitFor(async () => {
      const { workers } = await ask('GET', '/admin/v1/workers');
      expect(workers).toContainEqual(expect.objectContaining({ worker: 'reshard', state: 'idle' }));
      // `pausing` until the heartbeat of the killed process is old.
      const paused = { worker: 'force-empty', state: expect.stringMatching(/^paus(ing|ed)$/) };
      expect(workers).toContainEqual(expect.objectContaining(paused));
    }, until);
    expect(await taskOf(ask)).toMatchObject({
      state: 'paused',
      why: expect.stringMatching(/paused the worker force-empty: held$/),
      startedAt,
      done: { count: 0 },
      left: { count: objects },
    });
    await ask('POST', '/admin/v1/workers/force-empty/resume', {});
    await server.kill9();

    server = await start();
    ask = asker(server);
    await vi.waitFor(async () => expect(await taskOf(ask)).toMatchObject({ state: 'done' }), until);
    expect(await taskOf(ask)).toMatchObject({ startedAt, left: { count: 0 } });
    // A page that a kill cut short is counted at most once.
    expect((await taskOf(ask)).done.count).toBeLessThanOrEqual(objects);
  } finally {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  }
});

/**
 * Leading workers that are paused for longer than their leases, on real engines. Other processes finish their work. After the paused ones
 * resume, their writes are refused or change nothing, and nothing of them is counted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { inParallel } from '../../src/base/concurrency.ts';
import { elements, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import type { TestServer } from '../support/server.ts';
import { fsck } from './kill-rounds.ts';
import { untilRowsMove } from './moving-rows.ts';
import { missing, type SharedStore, sharedStore } from './shared-store.ts';

const startMs = 240_000;
/** The end of a lease that is not renewed, its successor's acquisition, and the expiry of cached layouts. */
const takenOverMs = 120_000;
const lostMs = 30_000;
const cleanMs = 60_000;
const atOnce = 12;
const env = { SVC_GC_GRACE: '0s', SVC_GC_INTERVAL: '50ms', SVC_LOG_LEVEL: 'WARN' };
const none: Readonly<Record<string, string>> = {};

type Job = 'force-empty' | 'reshard';

interface Work {
  readonly job: Job;
  readonly bucket: string;
  readonly keys: number;
  /** The body of the operator's request. */
  readonly body?: string;
}
const emptying: Work = { job: 'force-empty', bucket: 'emptied', keys: 400 };
const resharding: Work = { job: 'reshard', bucket: 'split', keys: 100, body: '{"shards":8}' };

const jobs = {
  'wide-column': [emptying, resharding],
  // On this store a reshard is done immediately.
  'ordered-kv': [emptying],
} as const;

const keysOf = ({ keys }: Work): string[] => Array.from({ length: keys }, (_, each) => `key ${each}`);

async function fill(client: LoadClient, work: Work): Promise<void> {
  const { bucket } = work;
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await client.expect({ method: 'PUT', path: pathOf(bucket) });
  await client.expect({ method: 'PUT', path: pathOf(bucket), query: { versioning: '' }, body });
  for (const text of ['one', 'two'])
    await inParallel(atOnce, keysOf(work), async (key) => {
      await client.expect({ method: 'PUT', path: pathOf(bucket, key), body: text });
    });
}

/** Every version, as `key id`. */
async function versionsIn(client: LoadClient, { bucket }: Work): Promise<string[]> {
  const seen: string[] = [];
  for (let marker: Record<string, string> | undefined = none; marker !== undefined; ) {
    const { text } = await client.expect({ path: pathOf(bucket), query: { versions: '', ...marker } });
    const ids = elements(text, 'VersionId');
    seen.push(...elements(text, 'Key').map((key, at) => `${key} ${ids[at]}`));
    const [key] = elements(text, 'NextKeyMarker');
    const [id = ''] = elements(text, 'NextVersionIdMarker');
    marker = key === undefined ? undefined : { 'key-marker': key, 'version-id-marker': id };
  }
  return seen;
}

interface Told {
  readonly state: string;
  readonly deleted?: { readonly versions: number };
}
const adminPath = ({ job, bucket }: Work): string => `/admin/v1/buckets/${bucket}/${job}`;
const readProgress = async (client: LoadClient, work: Work): Promise<Told> =>
  JSON.parse((await client.expect({ path: adminPath(work) })).text);

const untilSo = async (what: string, forMs: number, isSo: () => Promise<boolean>): Promise<void> => {
  for (const until = performance.now() + forMs; !(await isSo()); await sleep(5))
    if (performance.now() > until) throw new Error(`it never came: ${what}`);
};

/** Waits until the job has begun to change rows. */
async function begun(store: SharedStore, client: LoadClient, work: Work): Promise<void> {
  if (work.job === 'reshard') return untilRowsMove(store, { bucket: work.bucket, forMs: takenOverMs });
  const isSo = async () => (await versionsIn(client, work)).length < 2 * work.keys;
  return untilSo('versions go', takenOverMs, isSo);
}

/** A process that leads one worker and is paused while the worker works. */
async function stoppedAtWork(store: SharedStore, client: LoadClient, work: Work): Promise<TestServer> {
  await fill(client, work);
  const leader = await store.gateway({ ...env, SVC_WORKERS: work.job });
  await client.expect({ method: 'POST', path: adminPath(work), body: work.body ?? '' }, [202]);
  await begun(store, client, work);
  leader.process.kill('SIGSTOP');
  expect((await readProgress(client, work)).state, work.job).toBe('running');
  return leader;
}

/** After the work is done, clients delete everything in the bucket and write new objects. */
async function replaced(client: LoadClient, work: Work): Promise<readonly string[]> {
  const { bucket } = work;
  await inParallel(atOnce, await versionsIn(client, work), async (each) => {
    const at = each.lastIndexOf(' ');
    const query = { versionId: each.slice(at + 1) };
    await client.expect({ method: 'DELETE', path: pathOf(bucket, each.slice(0, at)), query });
  });
  const made: string[] = [];
  await inParallel(atOnce, keysOf(work).slice(0, 30), async (key) => {
    const put = await client.expect({ method: 'PUT', path: pathOf(bucket, key), body: `new ${key}` });
    made.push(`${key} ${put.headers['x-amz-version-id']}`);
  });
  return made.sort();
}

async function resume(leader: TestServer): Promise<void> {
  leader.process.kill('SIGCONT');
  // Its current operation may also time out before the process checks its lease.
  const hasNoticed = async () => /a lease was lost|a worker failed/.test(leader.log());
  await untilSo('the leader notices', lostMs, hasNoticed);
  // A stop waits for all running units.
  expect(await leader.stop()).toBe(0);
}

/** Waits until the queues are empty, and expects that exactly the bytes that rows name are stored. */
async function expectClean({ dataDir, env: settings }: SharedStore): Promise<void> {
  for (const until = performance.now() + cleanMs; ; await sleep(1000)) {
    const { code, text, summary } = await fsck(dataDir, settings);
    if (code === 0 && summary.leaving === 0 && summary.stored === summary.named) return;
    if (performance.now() > until) expect.fail(text);
  }
}

for (const kind of ['wide-column', 'ordered-kv'] as const) {
  describe.skipIf(missing[kind] !== undefined)(`on ${kind} ${missing[kind] ?? ''}`, () => {
    test('leaders that were paused beyond their leases undo nothing that their successors did', async () => {
      await using store = await sharedStore(kind);
      const works = jobs[kind];
      const front = await store.gateway({ ...env, SVC_WORKERS: '' }, startMs);
      const client = loadClient(front.url, front.credentials.root);
      const servers = [front];
      try {
        const leaders: TestServer[] = [];
        for (const work of works) leaders.push(await stoppedAtWork(store, client, work));
        servers.push(...leaders);
        const left = await versionsIn(client, emptying);
        expect(left.length).toBeGreaterThan(0);
        servers.push(await store.gateway({ ...env, SVC_WORKERS: 'force-empty,reshard,gc' }));
        for (const work of works)
          await untilSo(
            `${work.job} ends`,
            takenOverMs,
            async () => (await readProgress(client, work)).state === 'done',
          );
        expect(await versionsIn(client, emptying)).toEqual([]);
        const ends = await Promise.all(works.map((work) => readProgress(client, work)));
        // The work that was interrupted by the pause may be missing in the counts, but nothing is counted twice.
        const { versions = 0 } = ends[0]?.deleted ?? {};
        expect(versions).toBeGreaterThanOrEqual(left.length - 8);
        expect(versions).toBeLessThanOrEqual(2 * emptying.keys);

        const made = await Promise.all(works.map((work) => replaced(client, work)));
        for (const leader of leaders) await resume(leader);
        for (const [at, work] of works.entries()) {
          expect((await versionsIn(client, work)).sort(), work.job).toEqual(made[at]);
          expect(await readProgress(client, work)).toEqual(ends[at]);
        }
        await expectClean(store);
      } finally {
        client.close();
        for (const server of servers) {
          server.process.kill('SIGCONT');
          await server.stop();
        }
      }
    });
  });
}

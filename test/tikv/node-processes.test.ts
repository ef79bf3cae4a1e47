/** Several processes of one node on remote metadata: all of them obey a change before the client gets its answer (docs/gaps.md, M1). */
import { afterAll, expect, test } from 'vitest';
import { blockXml, policyOf } from '../support/access.ts';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { describeOnDouble } from './on-double.ts';

const caseMs = 120_000;
const processes = 3;
/** Connections go to the processes in turn. */
const readersPerProcess = 3;
const cleanups: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanups.reverse()) await cleanUp();
});

/** A server of several processes that cache what they read for a minute. */
async function openNode(endpoints: readonly string[]) {
  const server = await startServer({
    env: {
      SVC_META_BACKEND: 'ordered-kv',
      SVC_KV_PD_ENDPOINTS: endpoints.join(','),
      SVC_CONFIG_CACHE_TTL: '1m',
      SVC_PROCESSES: String(processes),
    },
  });
  cleanups.push(() => server.stop());
  const open = (keys: (typeof testCredentials)['root' | 'alice']): LoadClient => {
    const client = loadClient(server.url, keys, 1);
    cleanups.push(() => client.close());
    return client;
  };
  const readers = Array.from({ length: processes * readersPerProcess }, () => open(testCredentials.alice));
  return { owner: open(testCredentials.root), readers };
}

describeOnDouble('the processes of a node', {}, (engine) => {
  test(
    'a policy or a public access block is obeyed by every process when it is answered, though each caches bucket rows for a minute',
    async () => {
      const { owner, readers } = await openNode((await engine).endpoints);
      await owner.expect({ method: 'PUT', path: '/bucket' });
      await owner.expect({ method: 'PUT', path: '/bucket/key', body: 'content' });
      const policy = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' });
      const statuses = () =>
        Promise.all(readers.map(async (reader) => (await reader.send({ path: '/bucket/key' })).status));
      const all = (status: number): number[] => readers.map(() => status);
      const change = (method: string, family: string, body?: string) =>
        owner.expect({ method, path: '/bucket', query: { [family]: '' }, ...(body && { body }) });
      for (let round = 0; round < 5; round += 1) {
        await change('PUT', 'policy', policy);
        // Send twice, so that every process has cached the bucket before the second time.
        expect([await statuses(), await statuses()]).toEqual([all(200), all(200)]);
        await change('PUT', 'publicAccessBlock', blockXml('RestrictPublicBuckets'));
        expect(await statuses(), 'after the block').toEqual(all(403));
        await change('DELETE', 'publicAccessBlock');
        expect([await statuses(), await statuses()]).toEqual([all(200), all(200)]);
        await change('DELETE', 'policy');
        expect(await statuses(), 'after the policy is gone').toEqual(all(403));
      }
    },
    caseMs,
  );
});

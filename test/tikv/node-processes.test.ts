/** Several processes of one node on remote metadata: all of them obey a change before the client gets its answer (docs/gaps.md, M1). */
import { afterAll, expect, test } from 'vitest';
import { blockXml, policyOf } from '../support/access.ts';
import { writeKeyFile } from '../support/encryption.ts';
import { type Keys, type LoadClient, loadClient } from '../support/load-client.ts';
import { obeysRotationsElsewhere } from '../support/rotated-elsewhere.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { describeOnDouble } from './on-double.ts';

const processes = 3;
/** Connections go to the processes in turn. */
const readersPerProcess = 3;
const cleanups: (() => unknown)[] = [];

/** One for both tests, because several processes take long to start. */
let node: ReturnType<typeof openNode> | undefined;

/** A server of several processes that cache what they read for a minute. */
async function openNode(endpoints: readonly string[]) {
  const env = {
    SVC_META_BACKEND: 'ordered-kv',
    SVC_KV_PD_ENDPOINTS: endpoints.join(','),
    SVC_CONFIG_CACHE_TTL: '1m',
    SVC_PROCESSES: String(processes),
    SVC_KEY_PROVIDER: 'local-hsm',
    SVC_HSM_KEYS_FILE: await writeKeyFile(),
    SVC_KMS_DEFAULT_KEY_ID: 'first',
  };
  const server = await startServer({ env });
  cleanups.push(() => server.stop());
  const open = (keys: Keys): LoadClient => {
    const client = loadClient(server.url, keys, 1);
    cleanups.push(() => client.close());
    return client;
  };
  const readers = Array.from({ length: processes * readersPerProcess }, () => open(testCredentials.alice));
  /** Another node of the same metadata and chunks, whose caches are this old at most. */
  const openOther = async (cached: string) => {
    const other = await startServer({
      dataDir: server.dataDir,
      env: { ...env, SVC_PROCESSES: '1', SVC_CONFIG_CACHE_TTL: cached },
    });
    cleanups.push(() => other.stop());
    return other;
  };
  return { open, openOther, owner: open(testCredentials.root), readers };
}

describeOnDouble('the processes of a node', {}, (engine) => {
  // Before the engine ends: a node without its metadata takes long to stop.
  afterAll(async () => {
    for (const cleanUp of cleanups.reverse()) await cleanUp();
  });
  test('a policy or a public access block is obeyed by every process when it is answered, though each caches bucket rows for a minute', async () => {
    node ??= openNode((await engine).endpoints);
    const { owner, readers } = await node;
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
  });

  test('a signing key is obeyed by every process when its rotation or deletion is answered, though each caches bucket rows for a minute', async () => {
    node ??= openNode((await engine).endpoints);
    const { open, owner } = await node;
    await owner.expect({ method: 'PUT', path: '/signed' });
    await owner.expect({ method: 'PUT', path: '/signed/key', body: 'content' });
    const { root } = testCredentials;
    /** The statuses of requests that are signed with a secret, over fresh connections to every process. */
    const seen = async (secretKey: string) => {
      const clients = Array.from({ length: processes * readersPerProcess }, () =>
        open({ ...root, secretKey }),
      );
      const answers = await Promise.all(clients.map((client) => client.send({ path: '/signed/key' })));
      return [...new Set(answers.map(({ status }) => status))];
    };
    const path = '/admin/v1/buckets/signed/signing-key';
    const rotate = async (): Promise<string> => {
      const { text } = await owner.expect({ method: 'POST', path: `${path}/rotate` });
      return JSON.parse(text).secret_access_key;
    };
    let former = root.secretKey;
    for (let round = 0; round < 3; round += 1) {
      // Every process has cached the bucket with the former key.
      expect([await seen(former), await seen(former)]).toEqual([[200], [200]]);
      const next = await rotate();
      expect([await seen(former), await seen(next)], `rotation ${round}`).toEqual([[403], [200]]);
      former = next;
    }
    await owner.expect({ method: 'DELETE', path });
    expect([await seen(former), await seen(root.secretKey)]).toEqual([[403], [200]]);
  });

  test('another node obeys the rotation and the deletion of a signing key within SVC_CONFIG_CACHE_TTL', async () => {
    node ??= openNode((await engine).endpoints);
    const { openOther, owner } = await node;
    const other = await openOther('2s');
    await obeysRotationsElsewhere({ owner, otherUrl: other.url, cachedMs: 2_000 });
  });
});

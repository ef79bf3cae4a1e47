/** Several processes of one node on the embedded metadata: all of them obey a rotation or deletion of a signing key once it is answered. */
import { afterAll, expect, test } from 'vitest';
import { writeKeyFile } from '../support/encryption.ts';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import { startServer, testCredentials } from '../support/server.ts';

const processes = 3;
/** Connections go to the processes in turn. */
const connections = processes * 3;
const rounds = 5;
const cleanups: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanups.reverse()) await cleanUp();
});

test('every process of a node obeys the rotation and the deletion of a signing key when it is answered', async () => {
  const server = await startServer({
    env: {
      SVC_PROCESSES: String(processes),
      SVC_CONFIG_CACHE_TTL: '1m',
      SVC_KEY_PROVIDER: 'local-hsm',
      SVC_HSM_KEYS_FILE: await writeKeyFile(),
      SVC_KMS_DEFAULT_KEY_ID: 'first',
    },
  });
  cleanups.push(() => server.stop());
  const { root } = testCredentials;
  const open = (secretKey: string): LoadClient => {
    const client = loadClient(server.url, { ...root, secretKey }, 1);
    cleanups.push(() => client.close());
    return client;
  };
  const owner = open(root.secretKey);
  await owner.expect({ method: 'PUT', path: '/bucket' });
  const path = '/admin/v1/buckets/bucket/signing-key';
  /** What the processes answer to requests that are signed with a secret, over connections of their own. */
  const seen = async (secretKey: string) => {
    const clients = Array.from({ length: connections }, () => open(secretKey));
    const answers = await Promise.all(clients.map((client) => client.send({ path: '/bucket' })));
    return [...new Set(answers.map(({ status }) => status))];
  };
  let former = root.secretKey;
  for (let round = 0; round < rounds; round += 1) {
    expect(await seen(former)).toEqual([200]);
    const { text } = await owner.expect({ method: 'POST', path: `${path}/rotate` });
    const next: string = JSON.parse(text).secret_access_key;
    expect([await seen(former), await seen(next)], `rotation ${round}`).toEqual([[403], [200]]);
    former = next;
  }
  await owner.expect({ method: 'DELETE', path });
  expect([await seen(former), await seen(root.secretKey)]).toEqual([[403], [200]]);
});

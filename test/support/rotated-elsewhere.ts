/** A law of every metadata backend that several nodes share: a rotation or deletion of a signing key holds on the other nodes too. */
import { expect } from 'vitest';
import { type LoadClient, loadClient } from './load-client.ts';
import { testCredentials } from './server.ts';

export interface TwoNodes {
  /** The operator at the node that answers the rotation. */
  readonly owner: LoadClient;
  /** The other node, whose SVC_CONFIG_CACHE_TTL is `cachedMs`. */
  readonly otherUrl: string;
  readonly cachedMs: number;
}

/** A request may begin at the last moment of the cached row, and the machine of the tests may be busy. */
const graceMs = 5_000;
const rounds = 2;

export async function obeysRotationsElsewhere({ owner, otherUrl, cachedMs }: TwoNodes): Promise<void> {
  await owner.expect({ method: 'PUT', path: '/far' });
  const path = '/admin/v1/buckets/far/signing-key';
  const { root } = testCredentials;
  /** The status there of a request that is signed with a secret. */
  const seen = async (secretKey: string) => {
    const client = loadClient(otherUrl, { ...root, secretKey }, 1);
    const { status } = await client.send({ path: '/far' });
    client.close();
    return status;
  };
  const refusedSoon = async (secretKey: string, from: number) => {
    const obeyed = { timeout: 60_000, interval: 50 };
    let begun = 0;
    await expect
      .poll(async () => {
        begun = performance.now();
        return seen(secretKey);
      }, obeyed)
      .toBe(403);
    expect(begun - from).toBeLessThan(cachedMs + graceMs);
  };
  let former = root.secretKey;
  for (let round = 0; round < rounds; round += 1) {
    expect(await seen(former)).toBe(200);
    const { text } = await owner.expect({ method: 'POST', path: `${path}/rotate` });
    const rotatedAt = performance.now();
    const next: string = JSON.parse(text).secret_access_key;
    await refusedSoon(former, rotatedAt);
    expect(await seen(next)).toBe(200);
    former = next;
  }
  await owner.expect({ method: 'DELETE', path });
  await refusedSoon(former, performance.now());
  expect(await seen(root.secretKey)).toBe(200);
}

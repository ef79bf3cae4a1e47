/** A replication peer as a stub: it describes its buckets and takes versions, as slowly as a test asks. */
import { expect } from 'vitest';
import { setVersioning } from './gateway-bodies.ts';
import type { Client } from './gateway-client.ts';
import { roleArnOf } from './replication-role.ts';
import { serveStub } from './server-stub.ts';

export interface StubPeerOptions {
  ownerOf(bucket: string): string;
  /** Absent: it has every bucket. */
  has?(bucket: string): boolean;
  /** The head of a request with a content of so many bytes has arrived. */
  begin?(size: number): void;
  /** A version has arrived; the peer answers when this returns. @param size in bytes */
  take(bucket: string, size: number): Promise<void>;
}

/** @returns the endpoint */
export async function openStubPeer({
  ownerOf,
  has = () => true,
  begin,
  take,
}: StubPeerOptions): Promise<string> {
  const { port } = await serveStub(async ({ wire, body }) => {
    const [, bucket = ''] = /^\/([^/?]+)/.exec(wire.target) ?? [];
    if (wire.method === 'PUT') begin?.(Number(wire.headers.get('content-length')));
    let size = 0;
    for await (const { length } of body ?? []) size += length;
    if (!has(bucket)) return { status: 404, headers: [], body: '<Error><Code>NoSuchBucket</Code></Error>' };
    if (wire.method === 'GET') {
      const site = { site: 'far-site', versioning: 'Enabled', objectLock: false, owner: ownerOf(bucket) };
      return { status: 200, headers: [['content-type', 'application/json']], body: JSON.stringify(site) };
    }
    await take(bucket, size);
    const headers: [string, string][] = [
      ['x-amz-replica-outcome', 'stored'],
      ['etag', '"x"'],
    ];
    return { status: 200, headers, body: '' };
  });
  return `http://127.0.0.1:${port}`;
}

/** The body of `PUT /replication/peers/<name>`, for a stub that serves all accounts. */
export const stubPeerBody = (endpoint: string) => ({
  accessKey: 'peerkey',
  secretKey: 'secret-secret',
  endpoint,
  accounts: [{ account: '*' }],
});

/** Makes a bucket whose versions go to a bucket at the peer `far`. @param rule to: absent for one of the same name */
export async function replicateToStub(
  client: Client,
  { owner, bucket, to = bucket }: { readonly owner: string; readonly bucket: string; readonly to?: string },
): Promise<void> {
  await client.put(`/${bucket}`);
  await setVersioning(client, bucket, 'Enabled');
  const body = `<ReplicationConfiguration><Role>${roleArnOf(owner)}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
   <Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:${to}</Bucket></Destination>
   <DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;
  expect((await client.put(`/${bucket}?replication`, { body })).text).toBe('');
}

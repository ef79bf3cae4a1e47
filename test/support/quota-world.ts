/** A gateway whose buckets and accounts have quotas, and further gateways over its store. */
import { expect } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { alice, type GatewayWorld, type GatewayWorldOptions, openGateway, operator } from './gateway.ts';
import { type Client, openClient } from './gateway-client.ts';

export interface QuotaWorld extends GatewayWorld {
  readonly admin: Client;
  limit(
    limits: Partial<Record<'maxBytes' | 'maxObjects' | 'maxBytesPerObject', number>>,
    bucket?: string,
  ): Promise<void>;
  limitUser(limits: Partial<Record<'maxBuckets' | 'totalMaxBytes', number>>, user?: string): Promise<void>;
  /** Further gateways over the same store, as other processes have them. */
  gateways(count: number): readonly Client[];
}

export async function openQuotas(options: GatewayWorldOptions = {}): Promise<QuotaWorld> {
  const world = await openGateway(options);
  const admin = world.as({ credential: operator });
  const put = async (path: string, value: object): Promise<void> => {
    const { status, text } = await admin.put(`/admin/v1${path}`, { body: JSON.stringify(value) });
    expect([status, text]).toEqual([204, '']);
  };
  await world.client.put('/bucket');
  return Object.assign(world, {
    admin,
    limit: (limits: object, bucket = 'bucket') =>
      put(`/buckets/${bucket}/quota`, { maxBytes: 0, maxObjects: 0, maxBytesPerObject: 0, ...limits }),
    limitUser: (limits: object, user = alice.owner) =>
      put(`/iam/users/${user}/quota`, { maxBuckets: 0, totalMaxBytes: 0, ...limits }),
    gateways: (count: number) =>
      Array.from({ length: count }, () =>
        openClient(createGateway({ ...world.context, caches: new Caches() }), world.context.clock, {
          credential: alice,
        }),
      ),
  });
}

export const ten = 'ten bytes.';
export const refusedFor = (what: 'bucket' | 'user') => ({
  status: 403,
  code: 'QuotaExceeded',
  text: expect.stringContaining(`<Message>quota exceeded for ${what}`),
});

/** Each of the four quotas of a bucket of alice, with its path below `/admin/v1`, so that bytes have no room in it. */
export function tightQuotas(bucket: string, maxObjects: number) {
  const path = `/buckets/${bucket}/quota`;
  const none = { maxBytes: 0, maxObjects: 0, maxBytesPerObject: 0 };
  return [
    [path, { ...none, maxBytes: 1 }],
    [path, { ...none, maxObjects }],
    [path, { ...none, maxBytesPerObject: 1 }],
    [`/iam/users/${alice.owner}/quota`, { maxBuckets: 0, totalMaxBytes: 1 }],
  ] as const;
}

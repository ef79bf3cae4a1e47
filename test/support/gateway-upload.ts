/** A multipart upload of `/bucket/key`: its creation, its parts and its expected ETag. */
import type { GatewayWorld } from './gateway.ts';
import { bytesOf, createUpload, MiB, md5, type PartOf, putPart } from './gateway-bodies.ts';

export const path = '/bucket/key';

export async function openUpload(world: GatewayWorld, headers: Record<string, string> = {}): Promise<string> {
  await world.client.put('/bucket');
  return createUpload(world.client, path, { headers });
}

export const part = (
  world: GatewayWorld,
  uploadId: string,
  number: number,
  body: Uint8Array | string,
): Promise<PartOf> => putPart(world.client, path, { uploadId, number, body });

export const compositeEtag = (parts: readonly PartOf[]): string =>
  `"${md5(Buffer.from(parts.map(({ etag }) => etag.replaceAll('"', '')).join(''), 'hex'))}-${parts.length}"`;

/** The smallest size of a part that is not the last. */
export const big = bytesOf(5 * MiB, 2);

/**
 * Sends a version to another S3 service by the requests of any client. The service gives its versions ids of its own, so a later change
 * of tags reaches its latest version, and ACLs, locks and deletions of versions are not sent.
 */
import type { ReplicationDestination } from '../../../metadata/records/queues.ts';
import { type Ctx, checkReply, contentOf, type Shipment, send, sendUpload } from './send-content.ts';

export interface ServiceShipment extends Shipment {
  readonly destination: ReplicationDestination;
}

/** @throws PeerRefused, PeerSilent */
export async function sendToService(ctx: Ctx, shipment: ServiceShipment): Promise<void> {
  const { row } = shipment;
  if (row.marker) return void checkReply(await send(ctx, shipment, { method: 'DELETE' }), 'DeleteObject');
  if (row.stamp !== undefined && row.replication !== 'FAILED') return sendTags(ctx, shipment);
  const headers = headersOf(shipment);
  if (!('extents' in row.manifest)) return sendUpload(ctx, shipment, { query: [['uploads', '']], headers });
  const pieces = contentOf(ctx, shipment, { start: 0, size: row.size });
  const reply = await send(ctx, shipment, { method: 'PUT', headers, body: { length: row.size, pieces } });
  checkReply(reply, 'PutObject');
}

async function sendTags(ctx: Ctx, shipment: ServiceShipment): Promise<void> {
  const { tags = [] } = shipment.row.headers;
  const query = [['tagging', '']] as const;
  if (tags.length === 0)
    return void checkReply(await send(ctx, shipment, { method: 'DELETE', query }), 'DeleteObjectTagging');
  const set = tags.map(([key, value]) => `<Tag><Key>${xml(key)}</Key><Value>${xml(value)}</Value></Tag>`);
  const body = new TextEncoder().encode(`<Tagging><TagSet>${set.join('')}</TagSet></Tagging>`);
  checkReply(await send(ctx, shipment, { method: 'PUT', query, body }), 'PutObjectTagging');
}

const xml = (text: string): string => text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);

const form = (tags: readonly (readonly [string, string])[]): string =>
  tags.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');

function headersOf({ row, destination }: ServiceShipment): Record<string, string> {
  const { user = {}, system = {}, tags = [] } = row.headers;
  const { EncryptionConfiguration, StorageClass } = destination;
  const keyId = EncryptionConfiguration?.ReplicaKmsKeyID;
  return {
    ...system,
    ...Object.fromEntries(Object.entries(user).map(([name, value]) => [`*-meta-${name}`, value])),
    ...(tags.length === 0 ? {} : { '*-tagging': form(tags) }),
    ...(StorageClass === undefined ? {} : { '*-storage-class': StorageClass }),
    ...(row.encryption?.by === 'service' ? { '*-server-side-encryption': 'AES256' } : {}),
    ...(row.encryption?.by === 'provider' ? { '*-server-side-encryption': 'aws:kms' } : {}),
    ...(row.encryption?.by === 'provider' && keyId !== undefined
      ? { '*-server-side-encryption-aws-kms-key-id': keyId }
      : {}),
  };
}

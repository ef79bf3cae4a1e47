/**
 * Sends a version to another S3 service by the requests of any client. The service gives its versions ids of its own and puts the one that
 * arrives last on top. So versions go in their order, and one that would cover a newer version is not sent. A later change of tags
 * reaches the latest version only; ACLs, locks and deletions of versions are not sent.
 */

import { toBase64 } from '../../base/text/base64.ts';
import { fromHex } from '../../base/text/hex.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import { encryptionNames } from '../../metadata/objects/properties.ts';
import type { ReplicationDestination } from '../../metadata/records/queues.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import type { PeerReply } from '../../ports/peer-requests.ts';
import {
  checkReply,
  checkSign,
  codeIn,
  hasEtag,
  hashPieces,
  isEmpty,
  PeerRefused,
  readContent,
  type Shipment,
  type ShipmentCtx,
  send,
  sendUpload,
  UnexpectedAnswer,
} from './send-content.ts';

export interface ServiceShipment extends Shipment {
  readonly destination: ReplicationDestination;
  /** The current version of the key here. */
  readonly head: ObjectRow | undefined;
  /** The task is out of order: of a resync, or of a retry. */
  readonly isRepeated: boolean;
  /** The bucket has Object Lock, for which services ask for a digest of each object and part. */
  readonly hasLock: () => Promise<boolean>;
}

/** The service has a newer version of the key. */
export class Superseded extends Error {}

/** The service stores the key under another name, where it may be another object. */
export class KeyChanged extends Error {}

/** Keys that services may normalize as paths: MinIO stores `/a` as `a`. */
const isPathLike = (key: string): boolean => /^\/|\/\/|(?:^|\/)\.{1,2}(?:\/|$)/.test(key);

/** @throws PeerRefused, PeerSilent, UnexpectedAnswer, Superseded, KeyChanged */
export async function sendToService(ctx: ShipmentCtx, shipment: ServiceShipment): Promise<void> {
  const { key } = shipment.row;
  if (!isPathLike(key)) return sendVersion(ctx, shipment);
  const keyChanged = (): KeyChanged =>
    new KeyChanged(
      'the destination stores the key under another name, as a path: use keys without empty parts',
    );
  // An object that answers to the key and is not listed under it has another key: it must not be replaced.
  const there = await readHead(ctx, shipment);
  if (there.status === 200 && !(await isListed(ctx, shipment))) throw keyChanged();
  await sendVersion(ctx, shipment);
  if (shipment.row.marker || (await isListed(ctx, shipment))) return;
  checkReply(await send(ctx, shipment, { method: 'DELETE' }), 'DeleteObject');
  throw keyChanged();
}

async function isListed(
  { peers }: ShipmentCtx,
  { access, to, row, signal }: ServiceShipment,
): Promise<boolean> {
  const query = [
    ['encoding-type', 'url'],
    ['list-type', '2'],
    ['max-keys', '1'],
    ['prefix', row.key],
  ] as const;
  const reply = await peers.send(access, { method: 'GET', bucket: to, query }, signal);
  const [, listed] = /<Key>([^<]*)<\/Key>/.exec(decodeUtf8(checkReply(reply, 'ListObjectsV2').body)) ?? [];
  return listed !== undefined && decodeURIComponent(listed.replaceAll('+', ' ')) === row.key;
}

async function sendVersion(ctx: ShipmentCtx, shipment: ServiceShipment): Promise<void> {
  const { row } = shipment;
  if (await hasVersion(ctx, shipment)) {
    if (row.stamp !== undefined) await sendTags(ctx, shipment);
    return;
  }
  if (row.marker)
    return void checkSign(await send(ctx, shipment, { method: 'DELETE' }), 'DeleteObject', isEmpty);
  const headers = serviceHeaders(shipment);
  if (!('extents' in row.manifest)) {
    const withDigests = await shipment.hasLock();
    return sendUpload(ctx, shipment, { query: [['uploads', '']], headers, withDigests });
  }
  const pieces = readContent(ctx, shipment, { start: 0, size: row.size });
  const body = { length: row.size, pieces };
  const reply = await send(ctx, shipment, {
    method: 'PUT',
    headers: { ...headers, ...(await contentDigest(ctx, shipment)) },
    body,
  });
  checkSign(reply, 'PutObject', hasEtag);
}

/** Services require a digest in buckets with Object Lock. Where the ETag is none, as of parts or under a provider's key, the content is read twice. */
async function contentDigest(ctx: ShipmentCtx, shipment: ServiceShipment): Promise<Record<string, string>> {
  const { etag, encryption, etagUnverified, size } = shipment.row;
  if (encryption?.by !== 'provider' && !etagUnverified && !etag.includes('-'))
    return { 'content-md5': toBase64(fromHex(etag)) };
  if (!(await shipment.hasLock())) return {};
  return { 'content-md5': await hashPieces(ctx, readContent(ctx, shipment, { start: 0, size })) };
}

/** Asks the service only where its object may be this version or a newer one: most tasks are of new versions, in their order. */
async function hasVersion(ctx: ShipmentCtx, shipment: ServiceShipment): Promise<boolean> {
  const { row, head, isRepeated } = shipment;
  const isCurrent = head === undefined || head.version === row.version;
  if (!isCurrent && (isRepeated || head.replication === 'COMPLETED')) throw superseded();
  // Versions of other sites arrive here in any order.
  const isLate = !isCurrent && row.replication === 'REPLICA';
  if (!isRepeated && !isLate && row.stamp === undefined) return false;
  const there = await readHead(ctx, shipment);
  if (!isCurrent && !head.marker && isSame(there, head)) throw superseded();
  return isSame(there, row);
}

/**
 * An answer of the service that it has an object of the key, or none. Its 404 has no body, so a proxy's looks the same: a GET of one byte
 * is refused with a code. @throws PeerRefused, UnexpectedAnswer
 */
async function readHead(ctx: ShipmentCtx, shipment: ServiceShipment): Promise<PeerReply> {
  const there = await send(ctx, shipment, { method: 'HEAD' });
  if (there.status === 200) return checkSign(there, 'HeadObject', hasEtag);
  // Other answers to HEAD have no body, and so no code.
  if (there.status !== 404) throw new PeerRefused(there.status, { code: '', said: '' }, 'HeadObject');
  const read = await send(ctx, shipment, { method: 'GET', headers: { range: 'bytes=0-0' } });
  const code = codeIn(read);
  if (code === 'NoSuchKey') return there;
  if (code !== '') checkReply(read, 'HeadObject');
  throw new UnexpectedAnswer(read.status, 'HeadObject');
}

const superseded = (): Superseded =>
  new Superseded(
    'the destination may have a newer version of the key: it orders versions by their arrival, and takes changes of the latest one only',
  );

/** Whether a bucket of a service has Object Lock. A service that refuses the question probably knows none. @throws PeerSilent */
export async function askLock(
  { peers }: Pick<ShipmentCtx, 'peers'>,
  { access, to, signal }: Pick<Shipment, 'access' | 'to' | 'signal'>,
): Promise<boolean> {
  const reply = await peers.send(access, { method: 'GET', bucket: to, query: [['object-lock', '']] }, signal);
  return reply.status === 200 && decodeUtf8(reply.body).includes('>Enabled</ObjectLockEnabled>');
}

/** By ETag and size. Where a key provider encrypts, ETags differ, and the version counts as missing. */
function isSame({ status, headers }: PeerReply, { marker, etag, size }: ObjectRow): boolean {
  if (marker) return status === 404;
  return status === 200 && headers['etag'] === `"${etag}"` && headers['content-length'] === String(size);
}

async function sendTags(ctx: ShipmentCtx, shipment: ServiceShipment): Promise<void> {
  const { tags = [] } = shipment.row.headers;
  const query = [['tagging', '']] as const;
  if (tags.length === 0)
    return void checkSign(
      await send(ctx, shipment, { method: 'DELETE', query }),
      'DeleteObjectTagging',
      isEmpty,
    );
  const set = tags.map(([key, value]) => `<Tag><Key>${xml(key)}</Key><Value>${xml(value)}</Value></Tag>`);
  const body = new TextEncoder().encode(`<Tagging><TagSet>${set.join('')}</TagSet></Tagging>`);
  // The public service asks for a digest.
  const headers = { 'content-md5': contentMd5(ctx, body) };
  checkSign(await send(ctx, shipment, { method: 'PUT', query, headers, body }), 'PutObjectTagging', isEmpty);
}

function contentMd5({ hasher }: Pick<ShipmentCtx, 'hasher'>, body: Uint8Array): string {
  const md5 = hasher.create('md5');
  md5.update(body);
  return toBase64(md5.digest());
}

const xml = (text: string): string => text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);

const form = (tags: readonly (readonly [string, string])[]): string =>
  tags.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');

/** The class of the version is not sent: a service that does not have it would refuse the version. */
function serviceHeaders({ row, destination }: ServiceShipment): Record<string, string> {
  const { user = {}, system = {}, tags = [] } = row.headers;
  const { 'website-redirect-location': redirect, ...plain } = system;
  const { EncryptionConfiguration, StorageClass } = destination;
  const keyId = EncryptionConfiguration?.ReplicaKmsKeyID;
  const encryption = row.encryption && encryptionNames[row.encryption.by];
  return {
    ...plain,
    ...(redirect === undefined ? {} : { '*-website-redirect-location': redirect }),
    ...Object.fromEntries(Object.entries(user).map(([name, value]) => [`*-meta-${name}`, value])),
    ...(tags.length === 0 ? {} : { '*-tagging': form(tags) }),
    ...(StorageClass === undefined ? {} : { '*-storage-class': StorageClass }),
    ...(encryption === undefined ? {} : { '*-server-side-encryption': encryption }),
    ...(row.encryption?.by === 'provider' && keyId !== undefined
      ? { '*-server-side-encryption-aws-kms-key-id': keyId }
      : {}),
  };
}

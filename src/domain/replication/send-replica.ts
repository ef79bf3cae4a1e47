/**
 * Sends a version to another site, which keeps its id (docs/adr/0020-replicated-versions-keep-their-ids.md). A content that was uploaded in
 * parts is sent in the same parts, so that its ETag is the same.
 */
import { decodeUtf8 } from '../../base/text/utf8.ts';
import { encodeReplica, type ReplicaDocument } from '../../metadata/objects/properties.ts';
import type { ReplicationTask } from '../../metadata/records/queues.ts';
import { checkColumns, type ObjectRow } from '../../metadata/tables.ts';
import type { PeerAccess, PeerReply, PeerSending } from '../../ports/peer-requests.ts';
import { effectiveStamp } from '../objects/stamp.ts';
import {
  checkReply,
  checkSign,
  codeIn,
  ownedBy,
  readContent,
  type Shipment,
  type ShipmentCtx,
  send,
  sendUpload,
  UnexpectedAnswer,
} from './send-content.ts';

/** A larger content is sent only after the peer has said that it lacks the version. */
const unaskedMax = 1024 * 1024;

interface ReplicaShipment extends Shipment {
  readonly document: ReplicaDocument;
  /** The peer probably has the version: ask before the content is sent. */
  readonly isRepeated: boolean;
  /** The peer takes the version also where it has removed it permanently. */
  readonly restores: boolean;
}

const restoring = ({ restores }: Pick<ReplicaShipment, 'restores'>): Readonly<Record<string, string>> =>
  restores ? { '*-replica-restore': 'true' } : {};

/** What a peer says about itself. */
export interface PeerSite {
  readonly id: string;
  readonly versioning: string;
  readonly objectLock: boolean;
  /** The account that owns the bucket; undefined where an older gateway does not say. */
  readonly owner: string | undefined;
}

/** Refusals with status 400 that are about the settings of the peer or the connection, and not about the request. */
const callerCodes = new Set([
  'AuthorizationHeaderMalformed',
  'BadDigest',
  'ExpiredToken',
  'IncompleteBody',
  'InvalidToken',
  'RequestTimeout',
]);

/** @returns undefined where the service is no gateway of this kind @throws PeerRefused, PeerSilent, UnexpectedAnswer */
export async function askSite(
  { peers }: Pick<ShipmentCtx, 'peers'>,
  access: PeerAccess,
  bucket: string,
  signal: AbortSignal,
): Promise<PeerSite | undefined> {
  const reply = await peers.send(access, { method: 'GET', bucket, query: [['replica', '']] }, signal);
  const what = `GET /${bucket}?replica`;
  if (reply.headers['content-type']?.startsWith('application/json') === true && reply.status === 200) {
    const site = readSite(reply);
    if (site === undefined) throw new UnexpectedAnswer(reply.status, what);
    return site;
  }
  // A service that does not know the query refuses it, or lists the bucket. A proxy in the place of a gateway does neither.
  if (reply.status === 400 || reply.status === 501) {
    const code = codeIn(reply);
    if (code !== '' && !callerCodes.has(code)) return undefined;
  }
  if (reply.status === 200 && decodeUtf8(reply.body).includes('<ListBucketResult')) return undefined;
  checkReply(reply, what);
  throw new UnexpectedAnswer(reply.status, what);
}

/** @returns undefined where the answer is no description of a site */
export function readSite({ body }: Pick<PeerReply, 'body'>): PeerSite | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(decodeUtf8(body));
  } catch {
    return undefined;
  }
  const { site, versioning, objectLock, owner } = (parsed ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof site !== 'string' || typeof versioning !== 'string') return undefined;
  return {
    id: site,
    versioning,
    objectLock: objectLock === true,
    owner: typeof owner === 'string' ? owner : undefined,
  };
}

/** The document of a version for a destination, with what the rule changes. */
export function toDocument(
  row: ObjectRow,
  { site, destination }: { readonly site: string; readonly destination: ReplicationTask['destination'] },
): ReplicaDocument {
  const { version, isNull, marker, modified, size, etag, headers, checksum, lock, encryption } = row;
  const { StorageClass, Account, AccessControlTranslation, EncryptionConfiguration } = destination;
  const owned =
    AccessControlTranslation !== undefined && Account !== undefined
      ? { owner: Account }
      : { owner: row.owner, ...(row.acl === undefined ? {} : { acl: row.acl }) };
  const keyId = EncryptionConfiguration?.ReplicaKmsKeyID;
  return checkColumns('sent', {
    ...{ version, isNull, marker, modified, headers },
    ...(marker
      ? { size: 0, etag: '', storageClass: '' }
      : { size, etag, storageClass: StorageClass ?? row.storageClass }),
    ...(checksum === undefined ? {} : { checksum }),
    ...owned,
    ...(lock === undefined ? {} : { lock }),
    ...requestedEncryption(encryption, keyId),
    stamp: effectiveStamp(row),
    trace: row.trace ?? [site],
  });
}

function requestedEncryption(
  encryption: ObjectRow['encryption'],
  keyId: string | undefined,
): Pick<ReplicaDocument, 'encryption'> {
  switch (encryption?.by) {
    case 'service':
      return { encryption: { by: 'gateway' } };
    case 'provider':
      return { encryption: { by: 'provider', ...(keyId === undefined ? {} : { keyId }) } };
    // `deliver-tasks.ts` refuses versions under keys of clients.
    case 'customer':
    case undefined:
      return {};
  }
}

/** A gateway says what became of the version. */
const hasOutcome = ({ headers }: PeerReply): boolean => '*-replica-outcome' in headers;

/** @throws PeerRefused, PeerSilent, UnexpectedAnswer */
export async function sendReplica(ctx: ShipmentCtx, shipment: ReplicaShipment): Promise<void> {
  const { row, isRepeated } = shipment;
  const mayLack = !row.marker && !isRepeated && row.stamp === undefined && row.size <= unaskedMax;
  if (!mayLack) {
    const reply = await send(ctx, shipment, {
      method: 'PUT',
      query: [['replica-state', row.version]],
      headers: restoring(shipment),
      body: encodeReplica(shipment.document),
    });
    if (reply.status !== 404 || row.marker) {
      checkSign(reply, 'ReplicateState', hasOutcome);
      return;
    }
    // The bucket is missing, and not only the version.
    if (!decodeUtf8(reply.body).includes('NoSuchVersion')) checkReply(reply, 'ReplicateState');
  }
  if ('extents' in row.manifest) await sendWhole(ctx, shipment);
  else await sendParts(ctx, shipment);
}

/** Removes a version at the peer. A version that is gone there already is no error. */
export async function sendRemoval(
  ctx: Pick<ShipmentCtx, 'peers'>,
  { access, to, bucketOwner, signal }: Pick<Shipment, 'access' | 'to' | 'bucketOwner' | 'signal'>,
  { key, version }: { readonly key: string; readonly version: string },
): Promise<void> {
  const query = [['replica', version]] as const;
  const request: PeerSending = { method: 'DELETE', bucket: to, key, query, headers: ownedBy(bucketOwner) };
  const reply = await ctx.peers.send(access, request, signal);
  if (reply.status !== 404 || !decodeUtf8(reply.body).includes('NoSuchVersion'))
    checkSign(reply, 'ReplicateDelete', hasOutcome);
}

async function sendWhole(ctx: ShipmentCtx, shipment: ReplicaShipment): Promise<void> {
  const { row, document } = shipment;
  const encoded = encodeReplica(document);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield encoded;
    yield* readContent(ctx, shipment, { start: 0, size: row.size });
  }
  const reply = await send(ctx, shipment, {
    method: 'PUT',
    query: [['replica', row.version]],
    headers: { '*-replica-document-length': String(encoded.length), ...restoring(shipment) },
    body: { length: encoded.length + row.size, pieces: pieces() },
  });
  checkSign(reply, 'ReplicateObject', hasOutcome);
}

async function sendParts(ctx: ShipmentCtx, shipment: ReplicaShipment): Promise<void> {
  const query = [
    ['uploads', ''],
    ['replica', shipment.row.version],
  ] as const;
  await sendUpload(ctx, shipment, {
    query,
    headers: restoring(shipment),
    body: encodeReplica(shipment.document),
  });
}

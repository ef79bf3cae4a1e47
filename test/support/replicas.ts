/** Two sites in a test: reads a version at one, and brings it to another by the requests between sites. */
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { effectiveStamp } from '../../src/domain/objects/stamp.ts';
import { scanVersions } from '../../src/metadata/objects/objects.ts';
import { encodeReplica, type ReplicaDocument } from '../../src/metadata/objects/properties.ts';
import { findSite } from '../../src/metadata/site.ts';
import { historySpace, liveSpace, type ObjectRow, objects } from '../../src/metadata/tables.ts';
import { alice, type GatewayWorld, type GatewayWorldOptions, openGateway } from './gateway.ts';
import { md5, setVersioning } from './gateway-bodies.ts';
import type { Answer, Client } from './gateway-client.ts';

/** Every row of a key, newest first. */
export async function rowsOf({ metadata }: Context, bucketName: string, key: string): Promise<ObjectRow[]> {
  const bucket = await openBucket({ metadata }, bucketName);
  const at = { table: objects, in: { bucketId: bucket.id }, ways: bucket.shards };
  const live = await metadata
    .scan(at, { from: { space: liveSpace, key }, before: { space: historySpace } })
    .next(1000);
  const behind = await scanVersions(metadata, bucket, key).next(1000);
  return [...live, ...behind].map(({ row }) => row).filter((row) => row.key === key);
}

/** The document of a row, as its site sends it. */
export async function documentOf(context: Context, row: ObjectRow): Promise<ReplicaDocument> {
  const { version, isNull, marker, modified, size, etag, storageClass, headers, owner } = row;
  const { checksum, acl, lock, encryption } = row;
  return {
    ...{ version, isNull, marker, modified, size, etag, storageClass, headers, owner },
    ...(checksum === undefined ? {} : { checksum }),
    ...(acl === undefined ? {} : { acl }),
    ...(lock === undefined ? {} : { lock }),
    ...(encryption === undefined
      ? {}
      : {
          encryption:
            encryption.by === 'provider' ? { by: 'provider', keyId: encryption.keyId } : { by: 'gateway' },
        }),
    stamp: effectiveStamp(row),
    trace: row.trace ?? [await findSite(context)],
  };
}

export const joined = (document: ReplicaDocument, content: Uint8Array | string): Uint8Array =>
  Buffer.concat([encodeReplica(document), Buffer.from(content)]);

/** Sends ReplicateObject. `path` is `/bucket/key`. */
export function sendObject(
  client: Client,
  path: string,
  document: ReplicaDocument,
  content: Uint8Array | string,
): Promise<Answer> {
  const body = joined(document, content);
  const headers = { '*-replica-document-length': String(encodeReplica(document).length) };
  return client.put(`${path}?replica=${document.version}`, { body, headers });
}

export const sendState = (client: Client, path: string, document: ReplicaDocument): Promise<Answer> =>
  client.put(`${path}?replica-state=${document.version}`, { body: encodeReplica(document) });

/** A gateway with `/bucket`, which has versioning. */
export async function openSite(options: GatewayWorldOptions = {}): Promise<GatewayWorld> {
  const world = await openGateway(options);
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  return world;
}

/** A version id that another site drew at that time. */
export const versionAt = (ms: number, tail = '0'): string =>
  `${ms.toString(16).padStart(12, '0')}0000${tail.padStart(16, '0')}`;

/** A version of another site with that content. */
export function written(content: string, more: Partial<ReplicaDocument> = {}): ReplicaDocument {
  const version = more.version ?? versionAt(Date.now());
  return {
    version,
    isNull: false,
    marker: false,
    modified: Number.parseInt(version.slice(0, 12), 16),
    size: content.length,
    etag: md5(content),
    storageClass: 'STANDARD',
    headers: {},
    owner: alice.owner,
    stamp: version.slice(0, 16),
    trace: ['elsewhere'],
    ...more,
  };
}

export const markerAt = (version: string): ReplicaDocument =>
  written('', { version, marker: true, etag: '', storageClass: '' });

/**
 * Objects that a service of the gateway writes into a bucket: access logs and inventories. They pass placement, encryption, ownership,
 * quotas, versioning, audit and events like the objects of clients; no access log has a line about them.
 */

import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { audited } from '../../metadata/audit.ts';
import type { BucketRow, Grant, ObjectHeaders, ObjectRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { accessOfNew } from '../access/object-ownership.ts';
import type { Recorder } from '../common/recorder.ts';
import type { KeyUser } from '../content/provider-key.ts';
import type { RequestedEncryption } from '../content/requested-encryption.ts';
import type { Content } from '../content/store-bytes.ts';
import { drawObjectKey } from '../content/wrapped-key.ts';
import { eventChanges } from '../events/events.ts';
import { type WriteCtx, writeObject } from '../objects/write-object.ts';

export type ServiceWriteCtx = WriteCtx & Pick<Context, 'sealer' | 'keys'>;

/** The principals of the public service. */
export const services = { logging: 'logging.s3.amazonaws.com', inventory: 's3.amazonaws.com' } as const;
type Service = (typeof services)[keyof typeof services];

/** Asks whether the policy and the ACL of a bucket let a service write a key. */
export type MayWrite = (question: {
  readonly service: Service;
  readonly bucket: BucketRow;
  readonly key: string;
  /** The bucket that the service acts for. */
  readonly source: { readonly bucket: string; readonly account: string };
}) => Promise<boolean>;

/** The longest key of an object (public API). A service adds to a prefix that an account chose. */
const keyBytesMax = 1024;
export const isKeyTooLong = (key: string): boolean =>
  key.length * 3 > keyBytesMax && new TextEncoder().encode(key).length > keyBytesMax;

interface ServiceWrite {
  readonly service: Service;
  readonly bucket: BucketRow;
  readonly key: string;
  readonly headers: ObjectHeaders;
  /** Grants beside the full control of the bucket's owner. */
  readonly grants?: readonly Grant[];
  /** Absent: the default encryption of the bucket. */
  readonly requested?: RequestedEncryption;
  /** True: the write fails with PreconditionFailed where the key exists. */
  readonly isNew: boolean;
  /** Further side changes of the commit; called directly before each attempt to commit. */
  readonly then?: () => Promise<readonly SideChange[]>;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** @throws AccessDenied for a key of the key provider that the account of the bucket may not use */
export async function writeAsService(
  ctx: ServiceWriteCtx,
  write: ServiceWrite,
  source: Pick<Content, 'source' | 'length'>,
): Promise<ObjectRow> {
  const { bucket, key, grants = [], requested = { by: 'default' }, isNew, ...others } = write;
  const { headers, requestId, signal } = others;
  const objectKey = await drawObjectKey(ctx, { bucket, key }, { requested, user: bucketKeyUser(bucket) });
  const own: Grant = { grantee: { is: 'user', id: bucket.owner }, permission: 'FULL_CONTROL' };
  const supplied = grants.length === 0 ? undefined : { grants: [own, ...grants] };
  const { owner, acl } = await accessOfNew(ctx, bucket, { writer: bucket.owner, input: supplied });
  const { row } = await writeObject(
    ctx,
    {
      bucket,
      key,
      storageClass: bucket.defaultClass ?? 'STANDARD',
      headers,
      owner,
      acl,
      conditions: isNew ? { ifNoneMatch: '*' } : undefined,
      objectKey,
      record: recorderFor(ctx, write),
      requestId,
      signal,
    },
    { ...source, claims: {} },
  );
  return row;
}

/** Whether a write with `isNew` was refused, because the key exists. */
export const existsAlready = (cause: unknown): boolean =>
  cause instanceof Refusal && cause.code === 'PreconditionFailed';

/** A service may use the keys that the account of the bucket may use. */
const bucketKeyUser = ({ owner }: BucketRow): KeyUser => ({
  account: owner,
  async assertMayUse(_, { keyId, encryptsFor }) {
    if (encryptsFor === 'every' || encryptsFor.has(owner)) return;
    throw fail('AccessDenied', `The account ${owner} may not encrypt with the key ${keyId}.`);
  },
});

function recorderFor(
  ctx: ServiceWriteCtx,
  { service, bucket, key, then, requestId }: ServiceWrite,
): Recorder {
  return {
    async changes(move) {
      const entry = {
        time: ctx.clock.now(),
        id: requestId,
        action: 'PutObject',
        resource: `bucket:${bucket.name}`,
        key,
        status: 200,
        principal: service,
        source: service,
      };
      const cause = { events: ['ObjectCreated:Put'], principalId: service, source: service, requestId };
      return [
        audited(entry, { retentionMs: ctx.config.SVC_AUDIT_RETENTION }),
        ...(move === undefined ? [] : await eventChanges(ctx, move, cause)),
        ...((await then?.()) ?? []),
      ];
    },
    about: () => {},
    applied: () => {},
  };
}

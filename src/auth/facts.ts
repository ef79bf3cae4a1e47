/** The facts of a request under the names of condition keys, read only when a condition asks (public API "condition keys"). */

import { accessPointArn } from '../domain/access/access-points.ts';
import type { AccessPointRow } from '../metadata/records/access-points.ts';
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';
import { listStorageClassNames } from '../ports/storage-classes.ts';
import { describeCopySource } from '../protocol/copy-source.ts';
import { parseIsoTime } from '../protocol/formats/iso-time.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import { networkOrigin } from './bucket-policy.ts';
import type { Identity, Signed } from './identity.ts';
import { type Fact, type Facts, unknownFact } from './policy/request.ts';

/** The parts of a request that its authorization uses. */
export interface Asking {
  readonly wire: Wire;
  readonly query: Query;
  /** Dialect headers by bare name. */
  readonly own: ReadonlyMap<string, string>;
  readonly signed: Signed | undefined;
  readonly identity: Identity;
  /** Such as `PutObject`. */
  readonly operation: string;
  /** The access point that the request came through. */
  readonly accessPoint?: AccessPointRow | undefined;
}

/** The bucket, key and version that the request is about. */
export interface About {
  readonly bucket?: BucketRow | undefined;
  /** The version that exists already. */
  readonly target?: ObjectRow | undefined;
  /** The tags that the request brings. */
  readonly requestTags?: readonly (readonly [string, string])[] | undefined;
  /** Values by condition key, from the body or the parameters of an action; they take precedence over the rest of the request. */
  readonly named?: ReadonlyMap<string, string | readonly string[]> | undefined;
}

/** Facts that do not depend on the operation. */
interface Circumstances {
  readonly now: number;
  /** The gateway's region, for resources that are in no bucket. */
  readonly region: string;
  /** The account of a bucket that is about to be created. */
  readonly account: string | undefined;
}
interface Source extends Asking, About, Circumstances {}
type Read = (source: Source) => Fact;

/** What is known without a request. */
interface StandingSource extends Circumstances, Pick<About, 'bucket' | 'target'> {}
type StandingRead = (source: StandingSource) => Fact;

const dayMs = 24 * 60 * 60 * 1000;
const header =
  (name: string): Read =>
  ({ wire }) =>
    wire.headers.get(name);
const own =
  (name: string): Read =>
  (source) =>
    source.own.get(name);
const inEachSpelling =
  (name: string, spell: (value: string) => readonly string[]): Read =>
  (source) => {
    const value = source.own.get(name);
    return value === undefined ? undefined : spell(value);
  };

/** Of a request that names a key of the key provider. */
export const keyIdCondition = 's3:x-amz-server-side-encryption-aws-kms-key-id';
export const keyIdHeader = 'server-side-encryption-aws-kms-key-id';

interface KeyOwners extends Pick<About, 'bucket'>, Pick<Asking, 'identity'> {
  readonly region: string;
}

const spellKeyId: Read = (source) => {
  const named = source.own.get(keyIdHeader);
  return named === undefined ? undefined : listKeyNames([named], source);
};

export const namesKeyByAlias = ({ own: headers }: Pick<Asking, 'own'>): boolean =>
  /^(?:arn:[^/]*:)?alias\//.test(headers.get(keyIdHeader) ?? '');

/**
 * What a policy may call a key by that a request names so: the name; its id, or its alias, alone; and that in an ARN of this region
 * and of the account of the caller or the bucket, because policies name ARNs (public API).
 */
export function listKeyNames(
  named: readonly string[],
  { region, bucket, identity }: KeyOwners,
): readonly string[] {
  const bare = named.map((each) => each.replace(/^arn:aws[^:]*:kms:[^:]*:[^:]*:(?:key\/)?/, ''));
  const accounts = [identity?.owner, bucket?.owner].filter((each) => each !== undefined);
  const arns = bare.flatMap((each) =>
    accounts.map((of) => `arn:aws:kms:${region}:${of}:${each.startsWith('alias/') ? each : `key/${each}`}`),
  );
  return [...new Set([...named, ...bare, ...arns])];
}

const parameter =
  (name: string): Read =>
  ({ query }) =>
    query.get(name);

function remainingDays({ own: headers, now }: Source): string | undefined {
  const until = parseIsoTime(headers.get('object-lock-retain-until-date') ?? '');
  return until === undefined ? undefined : String(Math.ceil((until - now) / dayMs));
}

/** Whether a write makes an object, or only a part of one (public API "conditional writes"). */
const makesObject: Readonly<Record<string, string>> = {
  PutObject: 'true',
  CopyObject: 'true',
  PostObject: 'true',
  CompleteMultipartUpload: 'true',
  CreateMultipartUpload: 'false',
  UploadPart: 'false',
  UploadPartCopy: 'false',
};

const secondsSince = (then: number | undefined, now: number): string | undefined =>
  then === undefined ? undefined : String(Math.max(0, Math.floor((now - then) / 1000)));

/**
 * Keys that need no request, so services of the gateway have them too (`service-write.ts`).
 * `test/unit/auth/service-facts.test.ts` fails where a key below reads no request.
 */
const standingReaders: Readonly<Record<string, StandingRead>> = {
  'aws:CurrentTime': ({ now }) => new Date(now).toISOString(),
  'aws:EpochTime': ({ now }) => String(Math.floor(now / 1000)),
  'aws:RequestedRegion': ({ bucket, region }) => bucket?.region ?? region,
  'aws:ResourceAccount': ({ bucket, account }) => bucket?.owner ?? account,
  's3:ResourceAccount': ({ bucket, account }) => bucket?.owner ?? account,
};
const standingReads: ReadonlyMap<string, StandingRead> = new Map(Object.entries(standingReaders));

/** Keys of requests; the conditions that name them fail for services, unless those bring a value. */
const requestReaders: Readonly<Record<string, Read>> = {
  'aws:SourceIp': ({ wire: { remote } }) =>
    (remote.startsWith(':') ? remote.replace(/^::ffff:(?=\d+\.)/i, '') : remote) || unknownFact,
  'aws:SecureTransport': ({ wire }) => String(wire.secure),
  'aws:UserAgent': header('user-agent'),
  'aws:Referer': header('referer'),
  // Only temporary credentials have this key, because a long-term key is never issued for a code.
  'aws:MultiFactorAuthPresent': ({ identity }) =>
    identity?.session && String(identity.session.mfaAt !== undefined),
  'aws:MultiFactorAuthAge': ({ identity, now }) => secondsSince(identity?.session?.mfaAt, now),
  'aws:TokenIssueTime': ({ identity }) =>
    identity?.session && new Date(identity.session.issuedAt).toISOString(),
  's3:DataAccessPointArn': ({ accessPoint }) => accessPoint && accessPointArn(accessPoint),
  's3:DataAccessPointAccount': ({ accessPoint }) => accessPoint?.account,
  's3:AccessPointNetworkOrigin': ({ accessPoint }) => accessPoint && networkOrigin,
  // A proxy, or the program around `gateway.fetch`, has the connection.
  's3:TlsVersion': ({ wire }) => wire.tlsVersion ?? (wire.secure ? unknownFact : undefined),
  's3:ObjectCreationOperation': ({ operation }) => makesObject[operation],
  's3:authType': ({ signed }) => signed?.type,
  's3:signatureversion': ({ signed }) => signed?.version,
  's3:signatureAge': ({ signed, now }) =>
    signed?.at === undefined ? undefined : String(Math.max(0, now - signed.at)),
  's3:prefix': parameter('prefix'),
  's3:delimiter': parameter('delimiter'),
  's3:max-keys': parameter('max-keys'),
  's3:VersionId': parameter('versionId'),
  // A client may write these in several ways, which mean the same to the operation.
  's3:x-amz-copy-source': inEachSpelling('copy-source', describeCopySource),
  [keyIdCondition]: spellKeyId,
  's3:x-amz-storage-class': inEachSpelling('storage-class', listStorageClassNames),
  's3:object-lock-mode': own('object-lock-mode'),
  's3:object-lock-legal-hold': own('object-lock-legal-hold'),
  's3:object-lock-retain-until-date': own('object-lock-retain-until-date'),
  's3:object-lock-remaining-retention-days': remainingDays,
  's3:if-match': header('if-match'),
  's3:if-none-match': header('if-none-match'),
  's3:RequestObjectTagKeys': ({ requestTags }) => requestTags?.map(([name]) => name),
};
const reads: ReadonlyMap<string, Read> = /* @__PURE__ */ new Map([
  ...Object.entries(requestReaders),
  ...Object.entries(standingReaders),
]);

const tagIn = (tags: About['requestTags'], name: string): string | undefined =>
  tags?.find(([each]) => each === name)?.[1];

type FamilyRead = (source: Pick<Source, 'target' | 'requestTags'>, name: string) => string | undefined;

/** Families whose key ends in a name. */
const families: Readonly<Record<string, FamilyRead>> = {
  's3:ExistingObjectTag/': ({ target }, name) => tagIn(target?.headers.tags, name),
  's3:RequestObjectTag/': ({ requestTags }, name) => tagIn(requestTags, name),
};
const headerFamily = 's3:x-amz-';

export function collectFacts(asking: Asking, about: About, circumstances: Circumstances): Facts {
  // Copy only the fields that facts need: copying whole requests would cost more than most decisions.
  const { wire, query, own: headers, identity, signed, operation, accessPoint } = asking;
  const { bucket, target, requestTags, named } = about;
  const { now, region, account } = circumstances;
  const source: Source & Record<keyof Source, unknown> = {
    wire,
    query,
    own: headers,
    identity,
    signed,
    operation,
    accessPoint,
    bucket,
    target,
    requestTags,
    named,
    now,
    region,
    account,
  };
  return {
    lookup(key) {
      const said = named?.get(key);
      if (said !== undefined) return said;
      const read = reads.get(key);
      if (read !== undefined) return read(source);
      if (key.startsWith(headerFamily)) return source.own.get(key.slice(headerFamily.length));
      return readFamily(source, key);
    },
  };
}

function readFamily(source: Parameters<FamilyRead>[0], key: string): string | undefined {
  const end = key.indexOf('/') + 1;
  const inFamily = end === 0 ? undefined : families[key.slice(0, end)];
  return inFamily?.(source, key.slice(end));
}

/** Values that the call itself brings, by condition key. */
export type NamedFacts = readonly (readonly [key: string, value: string])[];

/** The facts of what has no request: all keys that need none, and those that the caller names (`service-write.ts`). */
export function standingFacts(source: StandingSource, named: NamedFacts): Facts {
  const brought = new Map(named);
  return {
    lookup: (key) => brought.get(key) ?? standingReads.get(key)?.(source) ?? readFamily(source, key),
  };
}

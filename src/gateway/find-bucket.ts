/**
 * Finds the bucket of a request. Where a read of metadata is a round trip, the head of the key is requested together with the bucket's
 * row, based on the bucket that the name led to last. The head is used only if the name still leads to that bucket; a wrong guess
 * costs a read and changes nothing.
 *
 * A read of an existing object uses the cached row of its bucket, if that is younger than `SVC_CONFIG_CACHE_TTL`, and so does the check of
 * a signature. A cached row allows, but refuses nothing: a refusal is decided by the stored row.
 */

import type { SecretFinder, SigningSecret } from '../auth/context.ts';
import { secretsOfBucket } from '../auth/verify-signature.ts';
import { Refusal } from '../base/errors.ts';
import type { Context } from '../context.ts';
import { type Reached, reach } from '../domain/access/access-points.ts';
import { signingSecret } from '../domain/buckets/signing-key.ts';
import { signingKeyIdentity } from '../domain/common/buckets.ts';
import { lookAt, rememberBucket, seenBucket } from '../metadata/buckets/buckets.ts';
import { findLiveHead } from '../metadata/objects/objects.ts';
import { type BucketRow, headSlot, liveSpace, type ObjectRow, objects } from '../metadata/tables.ts';
import type { Clock } from '../ports/clock.ts';
import type { Credential } from '../ports/credentials.ts';
import type { AnyTable, At, MetadataStore, SortOf, Stored } from '../ports/metadata-store.ts';
import { splitAddress } from '../protocol/address.ts';
import type { Identified, Located, Selected } from '../request/request.ts';

export interface BucketReader {
  /** Its metadata answers the first read of the head by the one that began beforehand. */
  readonly ctx: Context;
  /** The cached row of the bucket, where this request may use it; absent where none is cached. */
  readonly cached?: () => Promise<BucketRow | undefined>;
}

/** Begins to read the head of an operation on an object, where metadata is distant and the bucket is known. */
export function openBucketReader(ctx: Context, request: Selected): BucketReader {
  const { addressedName, key, query, wire, row } = request;
  const { metadata, clock, config } = ctx;
  const needsHead = row.about === 'version' || row.about === 'head';
  if (!metadata.isDistant || !needsHead || query.get('versionId') !== undefined) return { ctx };
  const seen = seenBucket(ctx, addressedName);
  if (seen === undefined) return { ctx };
  const ahead = askAhead(ctx, seen.bucket, key);
  const isRead = wire.method === 'GET' || wire.method === 'HEAD';
  const isYoung = clock.elapsed() - seen.at < config.SVC_CONFIG_CACHE_TTL;
  return {
    ctx: { ...ctx, metadata: withHeadAhead(ctx, ahead, { isAbsenceKnown: !isRead }) },
    // The bucket has an object, so it was neither deleted nor created again.
    cached: async () =>
      isRead && isYoung && (await ahead.head.catch(() => undefined)) !== undefined ? seen.bucket : undefined,
  };
}

/** The current row of the bucket, also cached where reading it is a round trip. @throws NoSuchBucket, NoSuchAccessPoint */
export function findBucket(
  ctx: Context,
  { addressedName, virtual }: Pick<Identified, 'addressedName' | 'virtual'>,
): Promise<Reached> {
  const by = { isHost: virtual !== undefined };
  return ctx.metadata.isDistant ? findAndCache(ctx, addressedName, by) : reach(ctx, addressedName, by);
}

async function findAndCache(ctx: Context, name: string, by: { readonly isHost: boolean }): Promise<Reached> {
  const look = lookAt(ctx, ctx.clock.elapsed());
  const reached = await reach(ctx, name, by);
  rememberBucket(ctx, reached.bucket, look);
  return reached;
}

// The secrets that may have signed a request about a bucket: those of the bucket's own signing key where it has one, else the secret of the
// access key (spec, "Authentication", 6). The bucket is read when the caller's access key is known, and the row is used
// by the later stages.

export interface BucketKey extends SecretFinder {
  /** The bucket, if it was read from the store and not from a cache; the refusal, where there is none. */
  readonly reached: Reached | Refusal | undefined;
  /** The identity of the key that the secret is from. */
  readonly signedWith: string | undefined;
}

/** Undefined for requests that are about no bucket. */
export function openBucketKey(
  ctx: Context,
  { area, isAction, control, isSite, local, virtual }: Located,
): BucketKey | undefined {
  if (area !== undefined || isAction || isSite || control !== undefined) return undefined;
  const { bucket: addressedName } = splitAddress(local, virtual);
  if (addressedName === '') return undefined;
  return new ReadKey(ctx, { addressedName, virtual });
}

class ReadKey implements BucketKey {
  reached: Reached | Refusal | undefined;
  signedWith: string | undefined;
  readonly #ctx: Context;
  readonly #named: { readonly addressedName: string; readonly virtual: string | undefined };
  /** The cached row that the secrets are from. */
  #cached: BucketRow | undefined;

  constructor(ctx: Context, named: { readonly addressedName: string; readonly virtual: string | undefined }) {
    this.#ctx = ctx;
    this.#named = named;
  }

  async findSecrets(credential: Credential): Promise<readonly SigningSecret[]> {
    this.#cached = this.#recentBucket();
    const bucket = this.#cached ?? (await this.#read())?.bucket;
    // Most buckets have no key of their own, and a further async function would allocate more in every request.
    return bucket?.signingKey === undefined
      ? this.#ownSecret(credential)
      : this.#secretsOf(bucket, credential);
  }

  /** Reads the row once at most, so a wrong signature costs what it costs where no row is cached. */
  async findSecretsAgain(credential: Credential): Promise<readonly SigningSecret[] | undefined> {
    const cached = this.#cached;
    if (cached === undefined) return undefined;
    this.#cached = undefined;
    const stored = (await this.#read())?.bucket;
    const isSame = stored !== undefined && formatSigning(stored) === formatSigning(cached);
    return isSame ? undefined : this.#secretsOf(stored, credential);
  }

  /** @throws KeyExpired, KeyDenied, KeyTampered, KMSUnavailable: there is no fallback */
  async #secretsOf(bucket: BucketRow | undefined, credential: Credential): Promise<readonly SigningSecret[]> {
    if (bucket?.signingKey === undefined) return this.#ownSecret(credential);
    const key = signingKeyIdentity(bucket.signingKey);
    this.signedWith = key;
    const secret = await signingSecret(this.#ctx, bucket, bucket.signingKey);
    return secretsOfBucket(this.#ctx.hasher, credential, { bucket, key, secret });
  }

  #ownSecret({ secretKey }: Credential): readonly SigningSecret[] {
    this.signedWith = undefined;
    return [{ secret: secretKey }];
  }

  /** From the cache, where reading the row is a round trip. */
  #recentBucket(): BucketRow | undefined {
    const ctx = this.#ctx;
    const seen = ctx.metadata.isDistant ? seenBucket(ctx, this.#named.addressedName) : undefined;
    const isRecent = seen !== undefined && ctx.clock.elapsed() - seen.at < ctx.config.SVC_CONFIG_CACHE_TTL;
    return isRecent ? seen.bucket : undefined;
  }

  /**
   * Undefined where there is none; a later stage says so, to callers whose signature is right. Not an async function, which would allocate
   * another promise in every request.
   */
  #read(): Promise<Reached | undefined> {
    return findBucket(this.#ctx, this.#named).then(
      (reached) => {
        this.reached = reached;
        return reached;
      },
      (cause: unknown) => {
        if (!(cause instanceof Refusal) || !notFound.has(cause.code)) throw cause;
        this.reached = cause;
        return undefined;
      },
    );
  }
}

/** All of a row that says which secrets sign. */
const formatSigning = ({ id, owner, signingKey }: BucketRow): string =>
  JSON.stringify([id, owner, signingKey]);

const notFound: ReadonlySet<string> = new Set(['NoSuchBucket', 'NoSuchAccessPoint']);

// Reads the head of a key in parallel with the row of its bucket. The first read of the head gets the result; later ones ask the
// store. The announcements of `shared-changes.ts` do not pass through this store: use it for object operations only.

/** A head that was requested longer ago is read again: another client may have replaced it during a slow upload. */
const freshMs = 1_000;

interface HeadAhead {
  /** The bucket that the name belonged to at the read. The head is valid for this bucket only. */
  readonly bucketId: string;
  readonly key: string;
  /** Rejects when the read failed. */
  readonly head: Promise<Stored<ObjectRow> | undefined>;
  /** By the monotonic clock (ms). */
  readonly askedAt: number;
}

type Ctx = { readonly metadata: MetadataStore; readonly clock: Pick<Clock, 'elapsed'> };

/** Begins the read. */
function askAhead({ metadata, clock }: Ctx, bucket: BucketRow, key: string): HeadAhead {
  const head = findLiveHead(metadata, bucket, key);
  // Ignore the failure here, because the ordinary read that follows will fail too and report it.
  head.catch(() => {});
  return { bucketId: bucket.id, key, head, askedAt: clock.elapsed() };
}

/**
 * The same store; its first read of that head gets the result of the read that has begun.
 * @param isAbsenceKnown whether to return an absent head too. Writes may, because their commit checks it; reads must read again.
 */
function withHeadAhead(
  { metadata, clock }: Ctx,
  { bucketId, key, head, askedAt }: HeadAhead,
  { isAbsenceKnown }: { readonly isAbsenceKnown: boolean },
): MetadataStore {
  let isTaken = false;
  const isHead = (at: At<AnyTable>, sort: object): boolean => {
    if (isTaken || at.table !== objects || (at.in as { bucketId?: string }).bucketId !== bucketId)
      return false;
    const asked = sort as SortOf<typeof objects>;
    return asked.space === liveSpace && asked.key === key && asked.slot === headSlot;
  };
  const get = async (at: At<AnyTable>, sort: never): Promise<unknown> => {
    if (isHead(at, sort)) {
      isTaken = true;
      if (clock.elapsed() - askedAt >= freshMs) return metadata.get(at, sort);
      const found = await head.then(
        (row) => ({ row }),
        () => undefined,
      );
      if (found !== undefined && (found.row !== undefined || isAbsenceKnown)) return found.row;
    }
    return metadata.get(at, sort);
  };
  return new Proxy(metadata, {
    get(store, name) {
      if (name === 'get') return get;
      const member: unknown = Reflect.get(store, name);
      return typeof member === 'function' ? member.bind(store) : member;
    },
  });
}

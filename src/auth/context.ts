/** The inputs of authentication: those of the service, and those of one request. */
import type { Caches } from '../base/bounded-cache.ts';
import type { SigningClock } from '../ports/clock.ts';
import type { Credential, Credentials } from '../ports/credentials.ts';
import type { Hasher } from '../ports/cryptography.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Query } from '../protocol/wire.ts';
import type { Identity } from './identity.ts';

export interface AuthenticationContext {
  readonly caches: Caches;
  readonly credentials: Credentials;
  /** That of the request, for the records of accounts. */
  readonly metadata?: MetadataStore | undefined;
  readonly clock: SigningClock;
  readonly hasher: Hasher;
  readonly settings: {
    readonly region: string;
    /** Refuses signatures for any other region. */
    readonly regionStrict: boolean;
    /** Accepts version-2 presigned queries. */
    readonly sigV2Presign: boolean;
  };
}

export interface ParsedTarget {
  /** The raw path of the request line. */
  readonly path: string;
  readonly query: Query;
}

/** A secret that may have signed a request. */
export interface SigningSecret {
  readonly secret: string;
  /** The caller that a signature with it proves, where that is not simply the owner of the access key. */
  readonly prove?: ((identity: Identity) => Identity) | undefined;
  /** The signature does not prove the holder of the access key. */
  readonly isOfBucket?: boolean;
}

/** For a request about a bucket, which may have a signing key of its own. */
export interface SecretFinder {
  /** The secrets one of which must have signed the request of a known access key. An error refuses the request: there is no fallback. */
  findSecrets(credential: Credential): Promise<readonly SigningSecret[]>;
  /**
   * After the secrets that were found first refused the request: those of the stored row of the bucket.
   * @returns undefined where the first ones were not from a cached row, or the stored row has the same ones
   */
  findSecretsAgain?(credential: Credential): Promise<readonly SigningSecret[] | undefined>;
}

export interface AuthenticationOptions {
  /** Absent: the secret of the access key. */
  readonly secrets?: SecretFinder | undefined;
  /** The request is an IAM or STS action, and may be signed for those services. */
  readonly isActionQuery?: boolean | undefined;
  /** The bucket that a virtual host names; version-2 signatures cover it in front of the path. */
  readonly virtualBucket?: string | undefined;
  /** The path without the prefix under which the gateway is mounted; version-2 signatures may cover this path instead. */
  readonly mountedPath?: string | undefined;
}

/** The caller. Set once by authentication, and never derived again. */
import type { SignedHash } from '../domain/content/digests.ts';
import type { Credential } from '../ports/credentials.ts';

export type { Credential, Credentials } from '../ports/credentials.ts';

/** `undefined` stands for anonymous. */
export type Identity =
  | (Omit<Credential, 'secretKey'> & {
      readonly signedFor?: SignedFor;
      /** Of a session of the embedding application, which answers for each permission, in place of policies of the caller. */
      readonly permits?: (permission: Permission) => Promise<boolean>;
    })
  | undefined;

/** What a request needs a permission for. */
export interface Permission {
  /** Such as `s3:GetObject`. */
  readonly action: string;
  /** '' at service scope. */
  readonly bucketName: string;
  /** '' for the bucket itself. */
  readonly key: string;
  /** Of a listing. */
  readonly prefix: string | undefined;
}

/** The bucket whose signing key has signed the request, and what the signature proves; see `auth/principal.ts`. */
export interface SignedFor {
  readonly bucketId: string;
  readonly bucketName: string;
  /** The key, as `signingKeyIdentity` names it. */
  readonly key: string;
  /**
   * Set where the signature proves only that the sender has the secret of the bucket: the identity to which the access key id
   * belongs. It narrows what the sender may do.
   */
  readonly claimed?: Identity;
}

/** Finds the caller again. @throws InvalidAccessKeyId for a key that is no longer active, ExpiredToken */
export type Renew = () => Promise<Identity>;

/** The verified body of a request. */
export interface Payload {
  /** Length of the decoded content, where the request declares it. */
  readonly length: number | undefined;
  /** The content, decoded and verified while it streams: throws a refusal before its end if it differs from the signed content. */
  readonly content: AsyncIterable<Uint8Array>;
  /** Trailing headers by lower-case name; complete when `content` has ended. */
  readonly trailers: ReadonlyMap<string, string>;
  /** Trailing headers that the request announced. */
  readonly announced: readonly string[];
  /** The hash that the content must have, where the request signed it. */
  readonly sha256: SignedHash | undefined;
}

/** How a request is signed, as the public API's condition keys name it. */
export interface Signed {
  readonly type: 'REST-HEADER' | 'REST-QUERY-STRING' | 'POST';
  readonly version: 'AWS4-HMAC-SHA256' | 'AWS';
  /** When it was signed (ms since the epoch); version-2 queries do not say. */
  readonly at?: number | undefined;
}

/** The result of authentication. */
export interface Authenticated {
  readonly identity: Identity;
  /** Absent for anonymous requests. */
  readonly renew?: Renew;
  readonly signed?: Signed;
  /** The dialect of the signature; for anonymous requests the one their headers show, if any. */
  readonly dialect: 'amz' | 'store' | undefined;
  readonly payload: Payload;
  /** Headers that were sent in a version-2 query. Treat them as if they had been sent as headers. */
  readonly hoisted?: readonly (readonly [name: string, value: string])[];
}

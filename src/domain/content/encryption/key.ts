/** The keys that contents are encrypted under. */
import type { Encryption } from '../../../metadata/objects/encryption.ts';
import type { BucketRow } from '../../../metadata/tables.ts';

/** A key that the client sends with each request; it is never stored. */
export interface CustomerKey {
  readonly bytes: Uint8Array;
  /** Base64 of its MD5. */
  readonly md5: string;
}

/** An object key, and how the row stores it. */
export interface ObjectKey {
  readonly bytes: Uint8Array;
  readonly encryption: Encryption;
}

/** The object that a wrapped key is bound to; it cannot be unwrapped for another one. */
export interface KeyPlace {
  readonly bucket: Pick<BucketRow, 'id' | 'name'>;
  readonly key: string;
}

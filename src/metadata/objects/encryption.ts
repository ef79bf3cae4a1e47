/** The encryption record of a version or an upload. */

/**
 * How a content is encrypted: its wrapped object key, and the key that wrapped it (docs/adr/0006-encryption.md). The record reveals
 * nothing without that key.
 */
export type Encryption = {
  /** Base64. */
  readonly wrapped: string;
} & (
  | { readonly by: 'service' }
  | {
      readonly by: 'provider';
      readonly keyId: string;
      /** The client's own context; the ARN is added to it. */
      readonly context?: Readonly<Record<string, string>>;
      readonly bucketKey?: true;
    }
  /** Replies repeat `keyMd5` (base64). */
  | { readonly by: 'customer'; readonly keyMd5: string }
);

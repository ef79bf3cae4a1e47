/** What a version or an upload remembers of its encryption. */

/**
 * How a content is encrypted: its object key, wrapped, and whose key wrapped it (docs/adr/0006-encryption.md). What is
 * here reveals nothing without that key.
 */
export type Encryption = {
  /** Base64. */
  readonly wrapped: string;
} & (
  | { readonly by: 'service' }
  | {
      readonly by: 'provider';
      readonly keyId: string;
      /** What the client gave; the ARN is added to it. */
      readonly context?: Readonly<Record<string, string>>;
      readonly bucketKey?: true;
    }
  /** `keyMd5` (base64) is what replies repeat. */
  | { readonly by: 'customer'; readonly keyMd5: string }
);

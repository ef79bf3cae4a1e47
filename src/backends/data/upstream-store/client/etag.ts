/** What the ETag of an answer says about the stored content. */
import { amz } from '../../../../protocol/dialect.ts';

type Headers = Readonly<Record<string, string>>;

const encryption = `${amz.headerPrefix}server-side-encryption`;

/** Without quotes; '' where there is none. */
export const etagIn = (headers: Headers): string => headers['etag']?.replaceAll('"', '') ?? '';

/** How the upstream encrypts what it stores, which determines its ETags. '' where it does not say. */
export const encryptionIn = (headers: Headers): string => headers[encryption] ?? '';

/** The ETag of an object that the upstream encrypts with a KMS or customer key says nothing about the content. */
export const isMd5 = (etag: string, headers: Headers): boolean =>
  /^[0-9a-f]{32}$/.test(etag) &&
  !encryptionIn(headers).startsWith('aws:kms') &&
  headers[`${encryption}-customer-algorithm`] === undefined;

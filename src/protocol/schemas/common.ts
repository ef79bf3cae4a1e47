/** What several bodies share: owners, checksums, permissions, modes of retention, key prefixes. */
import { element, type Infer, many, oneOf, optional, text, token, type Xml } from '../formats/codec.ts';

export const owner = element({ ID: optional(token), DisplayName: optional(text) }, { unknown: 'ignore' });
export type Owner = Infer<typeof owner>;

/**
 * The checksum algorithms of the protocol: bodies, replica documents and the operator API read this list. The facts of each are a row of
 * `domain/content/digests.ts`, and its hash is a `HashName` of `ports/cryptography.ts`.
 */
export const checksumNames = [
  'CRC32',
  'CRC32C',
  'CRC64NVME',
  'SHA1',
  'SHA256',
  'SHA512',
  'MD5',
  'XXHASH64',
  'XXHASH3',
  'XXHASH128',
] as const;
export const checksumAlgorithm = oneOf(...checksumNames);
export type ChecksumAlgorithm = Infer<typeof checksumAlgorithm>;

type ChecksumElement = `Checksum${ChecksumAlgorithm}`;
const checksumValue = optional(token);
/** Values are base64; a composite checksum ends with `-<parts>`. */
export const checksumFields = Object.fromEntries(
  checksumNames.map((name) => [`Checksum${name}`, checksumValue]),
) as Readonly<Record<ChecksumElement, typeof checksumValue>>;
export const checksumTypes = ['COMPOSITE', 'FULL_OBJECT'] as const;
export const checksumType = oneOf(...checksumTypes);
export type ChecksumType = Infer<typeof checksumType>;
/** The elements of one checksum, of which a reply has at most one value and its type. */
export type ChecksumFields = Partial<Record<ChecksumElement, string>> & {
  readonly ChecksumType?: ChecksumType;
};

export const encodingType = oneOf('url');

/** The permissions that an ACL grants. */
export const aclPermissions = ['FULL_CONTROL', 'WRITE', 'WRITE_ACP', 'READ', 'READ_ACP'] as const;

export const retentionModes = ['GOVERNANCE', 'COMPLIANCE'] as const;

/** Keys, versions, uploads, parts and prefixes together in one page of a listing (public API). */
export const listingPageMax = 1000;

/** One element for each prefix, as the public service sends them. */
export const commonPrefixes = many(element({ Prefix: text }), { max: listingPageMax });

interface ConfigurationOptions {
  /** A bucket has several of these, each with an id. */
  readonly hasIds?: boolean;
  /** The schema of its JSON form, where that is not the one of its XML. */
  readonly json?: Xml<unknown>;
}
/** The schema of a configuration of a bucket, with its root element and the family that the bucket's row names it by. */
export type ConfigurationSchema<F extends string, T> = Xml<T> & {
  readonly family: F;
  readonly root: string;
  readonly options: ConfigurationOptions;
};
/** Declares a configuration: `families.ts` gathers all that the schemas export. */
export const configuration = <const F extends string, T>(
  family: F,
  root: string,
  schema: Xml<T>,
  options: ConfigurationOptions = {},
): ConfigurationSchema<F, T> => ({ ...schema, family, root, options });

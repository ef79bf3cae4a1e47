/** Elements that several bodies share: owners, checksums, key prefixes. */
import { element, type Infer, many, oneOf, optional, text, token, type Xml } from '../formats/codec.ts';

export const owner = element({ ID: optional(token), DisplayName: optional(text) }, { unknown: 'ignore' });
export type Owner = Infer<typeof owner>;

/** Values are base64; a composite checksum ends with `-<parts>`. */
export const checksumFields = {
  ChecksumCRC32: optional(token),
  ChecksumCRC32C: optional(token),
  ChecksumCRC64NVME: optional(token),
  ChecksumSHA1: optional(token),
  ChecksumSHA256: optional(token),
  ChecksumSHA512: optional(token),
  ChecksumMD5: optional(token),
  ChecksumXXHASH64: optional(token),
  ChecksumXXHASH3: optional(token),
  ChecksumXXHASH128: optional(token),
};
export const checksumAlgorithm = oneOf(
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
);
export type ChecksumAlgorithm = Infer<typeof checksumAlgorithm>;
export const checksumType = oneOf('COMPOSITE', 'FULL_OBJECT');
export type ChecksumType = Infer<typeof checksumType>;

export const encodingType = oneOf('url');

/** One element for each prefix, as the public service sends them. A page has at most 1,000 keys and prefixes together. */
export const commonPrefixes = many(element({ Prefix: text }), { max: 1000 });

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

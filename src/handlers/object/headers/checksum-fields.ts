/** Checksums as XML elements. */
import type { Checksum } from '../../../metadata/tables.ts';

export interface ChecksumFields {
  ChecksumCRC32?: string;
  ChecksumCRC32C?: string;
  ChecksumCRC64NVME?: string;
  ChecksumSHA1?: string;
  ChecksumSHA256?: string;
  ChecksumSHA512?: string;
  ChecksumMD5?: string;
  ChecksumXXHASH64?: string;
  ChecksumXXHASH3?: string;
  ChecksumXXHASH128?: string;
  ChecksumType?: Checksum['type'];
}

export function toChecksumFields(checksum: Checksum | undefined): ChecksumFields {
  return checksum === undefined
    ? {}
    : { [`Checksum${checksum.algorithm}`]: checksum.value, ChecksumType: checksum.type };
}

/** The checksum of a part, which has no type of its own. */
export const partChecksumFields = (
  algorithm: Checksum['algorithm'] | undefined,
  value: string | undefined,
): ChecksumFields =>
  algorithm === undefined || value === undefined ? {} : { [`Checksum${algorithm}`]: value };

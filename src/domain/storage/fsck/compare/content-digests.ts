/** Reads the content of a version or part, and compares it with its ETag and checksums. */

import { toHex } from '../../../../base/text/hex.ts';
import type { Checksum, ObjectRow, UploadPart } from '../../../../metadata/tables.ts';
import type { Hash, Hasher } from '../../../../ports/crypto/hasher.ts';
import { compositeChecksum } from '../../../content/checksums.ts';
import { hashNames, toBase64 } from '../../../content/digests.ts';

const md5Form = /^[0-9a-f]{32}$/;
const compositeForm = /^[0-9a-f]{32}-\d{1,5}$/;

/** In the form of the protocol: the digest of digests with `-<parts>` appended. */
const isComposite = (checksum: Expected['checksum']): boolean =>
  checksum?.type === 'COMPOSITE' || /-\d+$/.test(checksum?.value ?? '');

/** The digests in the row of a content that is stored unencrypted. */
interface Expected {
  readonly etag: string;
  readonly checksum?: Pick<Checksum, 'algorithm' | 'value'> & Partial<Pick<Checksum, 'type'>>;
  readonly isMultipart: boolean;
}

export class ContentDigests {
  readonly #hasher: Hasher;
  readonly #expected: Expected;
  readonly #partMd5s: Uint8Array[] = [];
  readonly #partSums: Uint8Array[] = [];
  #md5: Hash | undefined;
  #sum: Hash | undefined;
  #partSum: Hash | undefined;
  #fault: string | undefined;

  constructor(hasher: Hasher, expected: Expected) {
    this.#hasher = hasher;
    this.#expected = expected;
    if (!isComposite(expected.checksum)) this.#sum = this.#newSum();
    this.#begin();
  }

  #newSum(): Hash | undefined {
    const { checksum } = this.#expected;
    return checksum && this.#hasher.create(hashNames[checksum.algorithm]);
  }

  #begin(): void {
    const { etag, isMultipart } = this.#expected;
    const isComparable = isMultipart ? compositeForm.test(etag) : md5Form.test(etag);
    this.#md5 = isComparable ? this.#hasher.create('md5') : undefined;
    this.#partSum = isMultipart ? this.#newSum() : undefined;
  }

  take(bytes: Uint8Array): void {
    this.#md5?.update(bytes);
    this.#sum?.update(bytes);
    this.#partSum?.update(bytes);
  }

  /** Call it after the bytes of a part. */
  endPart(number: number, checksum: string | undefined): void {
    if (!this.#expected.isMultipart) return;
    if (this.#md5 !== undefined) this.#partMd5s.push(this.#md5.digest());
    const sum = this.#partSum?.digest();
    if (sum !== undefined) {
      this.#partSums.push(sum);
      if (checksum !== undefined && toBase64(sum) !== checksum)
        this.#fault ??= `part ${number} is not what its ${this.#expected.checksum?.algorithm} ${checksum} says`;
    }
    this.#begin();
  }

  /** Call it after all bytes. @returns a sentence about the first digest that differs, or undefined */
  fault(): string | undefined {
    const { etag, checksum, isMultipart } = this.#expected;
    const found = isMultipart ? this.#compositeEtag() : this.#md5 && toHex(this.#md5.digest());
    if (found !== undefined && found !== etag) return `its content is not what its ETag ${etag} says`;
    if (this.#fault !== undefined || checksum === undefined) return this.#fault;
    const sum = this.#checksum();
    if (sum === undefined || sum === checksum.value) return undefined;
    return `its content is not what its ${checksum.algorithm} ${checksum.value} says`;
  }

  #compositeEtag(): string | undefined {
    if (this.#md5 === undefined) return undefined;
    const md5 = this.#hasher.create('md5');
    for (const digest of this.#partMd5s) md5.update(digest);
    return `${toHex(md5.digest())}-${this.#partMd5s.length}`;
  }

  #checksum(): string | undefined {
    const { checksum, isMultipart } = this.#expected;
    if (checksum === undefined) return undefined;
    if (this.#sum !== undefined) return toBase64(this.#sum.digest());
    return isMultipart
      ? compositeChecksum(this.#hasher, hashNames[checksum.algorithm], this.#partSums)
      : undefined;
  }
}

/** Undefined when the stored bytes are encrypted, or when the store assembled the parts. */
export function digestsOfVersion(hasher: Hasher, row: ObjectRow): ContentDigests | undefined {
  const { manifest, encryption, etag, checksum } = row;
  const isMultipart = !('extents' in manifest);
  if (encryption !== undefined || (isMultipart && manifest.whole !== undefined)) return undefined;
  return new ContentDigests(hasher, { etag, isMultipart, ...(checksum === undefined ? {} : { checksum }) });
}

export function digestsOfPart(hasher: Hasher, { etag, checksum }: UploadPart): ContentDigests {
  return new ContentDigests(hasher, {
    etag,
    isMultipart: false,
    ...(checksum === undefined ? {} : { checksum }),
  });
}

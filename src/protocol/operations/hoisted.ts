/** Which dialect headers count where a presigner moved them into the query. */

/** Of the signature itself, about a body that was unknown when the URL was signed, or a secret that no log of URLs may hold. */
const notHoisted =
  /^(algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|user-agent|sdk-checksum-algorithm|(copy-source-)?server-side-encryption-customer-key)$/;

/** What speaks of checksums and is not one itself. */
const aboutChecksums: readonly string[] = ['checksum-algorithm', 'checksum-mode', 'checksum-type'];
/** The checksum of a content, also by an algorithm that is not known here. */
export const isChecksumHeader = (bareName: string): boolean =>
  bareName.startsWith('checksum-') && !aboutChecksums.includes(bareName);

export const isHoisted = (bareName: string): boolean =>
  !notHoisted.test(bareName) && !isChecksumHeader(bareName);

/** Which dialect headers are accepted in the query, where presigners move them. */

/** Headers of the signature itself, about a body that is unknown when the URL is signed, or with a secret that must not be in a URL. */
const notHoisted =
  /^(algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|user-agent|sdk-checksum-algorithm|(copy-source-)?server-side-encryption-customer-key)$/;

/** Headers about checksums that contain no checksum. */
const aboutChecksums: readonly string[] = ['checksum-algorithm', 'checksum-mode', 'checksum-type'];
/** Whether a header contains a checksum of a content, also of an unknown algorithm. */
export const isChecksumHeader = (bareName: string): boolean =>
  bareName.startsWith('checksum-') && !aboutChecksums.includes(bareName);

export const isHoisted = (bareName: string): boolean =>
  !notHoisted.test(bareName) && !isChecksumHeader(bareName);

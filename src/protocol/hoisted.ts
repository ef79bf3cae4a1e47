/** Which dialect headers count where a presigner moved them into the query. */

/** Of the signature itself, about a body that nobody knew when the URL was signed, or a secret that no log of URLs may hold. */
const notHoisted =
  /^(algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|user-agent|sdk-checksum-algorithm|checksum-(crc32|crc32c|crc64nvme|sha1|sha256)|(copy-source-)?server-side-encryption-customer-key)$/;

export const isHoisted = (bareName: string): boolean => !notHoisted.test(bareName);

import type { NextConfig } from 'next';

export default {
  // Node loads it, because its native parts do not fit into a bundle.
  serverExternalPackages: ['sluice'],
  // The path of a bucket, and a key, may end in a slash.
  skipTrailingSlashRedirect: true,
  // Clients compare the length and the checksum of what they download.
  compress: false,
} satisfies NextConfig;

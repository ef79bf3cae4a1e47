/** When the certificates expire that the settings name. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Config } from '../../../config.ts';
import { settingNames } from '../../../config.ts';

export interface CertificateExpiry {
  readonly setting: string;
  /** Of the certificate in the file that expires first (ms). */
  readonly notAfter: number;
}

const freshMs = 60_000;
const certificateSettings = settingNames.filter((name) => /_(?:CERT|CA)_FILE$/.test(name));
const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Reads the files at most once a minute. A file that cannot be read has no expiry; the listener or client that uses it reports that. */
export function certificateExpiries(config: Config): () => readonly CertificateExpiry[] {
  let last: { readonly at: number; readonly found: readonly CertificateExpiry[] } | undefined;
  return () => {
    const now = performance.now();
    if (last === undefined || now - last.at >= freshMs)
      last = { at: now, found: certificateSettings.flatMap((setting) => read(setting, config[setting])) };
    return last.found;
  };
}

function read(setting: string, path: unknown): readonly CertificateExpiry[] {
  if (typeof path !== 'string') return [];
  try {
    const times = (readFileSync(path, 'latin1').match(pem) ?? []).map((text) =>
      Date.parse(new X509Certificate(text).validTo),
    );
    return times.length === 0 ? [] : [{ setting, notAfter: Math.min(...times) }];
  } catch {
    return [];
  }
}

/** TLS from files, read again when they change: certificates are renewed under a running server. */
import { readFileSync, statSync } from 'node:fs';
import type { Server } from 'node:https';
import { createSecureContext } from 'node:tls';
import type { Telemetry } from '../../ports/telemetry.ts';

export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface KeyPair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Throws when the files do not belong together, so that a bad pair never replaces a good one. */
export function readKeyPair({ certFile, keyFile }: TlsFiles): KeyPair {
  const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
  createSecureContext({ cert: pair.cert, key: pair.key });
  return pair;
}

/**
 * Polls every few seconds, because a watch on the file would miss the replaced symbolic links of a mounted secret. Existing connections
 * keep their certificate. Returns a function that ends the polling.
 */
export function reloadOnChange(
  server: Server,
  { files, telemetry, intervalMs }: { files: TlsFiles; telemetry: Telemetry; intervalMs: number },
): () => void {
  let seen = readStamp(files);
  const timer = setInterval(() => {
    const now = readStamp(files);
    if (now === seen) return;
    seen = now;
    try {
      const { cert, key } = readKeyPair(files);
      server.setSecureContext({ cert, key });
      telemetry.log('INFO', 'the TLS certificate was reloaded', { file: files.certFile });
    } catch (error) {
      // Often only one of the two files is new at this time: the change of the other is seen next.
      telemetry.log('ERROR', 'the changed TLS files are invalid; the old certificate stays in use', {
        error,
      });
    }
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

function readStamp({ certFile, keyFile }: TlsFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const stat = statSync(file, { throwIfNoEntry: false });
      return stat === undefined ? '' : `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
    })
    .join('|');
}

/** The files that upstreams name: their secret keys, and whose certificates are believed. */
import { readFile } from 'node:fs/promises';
import { dataBackends } from '../../config/data.ts';
import { fault, value } from '../../config/setting.ts';
import { keyPattern, type ResolvedUpstream, resolveUpstreams } from '../../config/upstreams.ts';
import type { Config } from '../../config.ts';
import { noSecretFile, readSecretFile, type SecretFile } from '../secret-file.ts';
import { StartRefusal } from '../start-refusal.ts';

interface UpstreamFiles {
  readonly secretKey: string;
  readonly ca?: string;
}

/** Checks the files before the start. */
export async function lookAtUpstreamFiles(config: Config): Promise<SecretFile<unknown>> {
  if (dataBackends[config.SVC_DATA_BACKEND].list !== 'SVC_UPSTREAMS') return noSecretFile;
  const read = await Promise.all(resolveUpstreams(config).map(({ upstream }) => readFiles(upstream)));
  // Several upstreams may share a file.
  const all = (of: 'faults' | 'warnings') => [...new Set(read.flatMap((each) => each[of]))];
  return { faults: all('faults'), warnings: all('warnings') };
}

export async function readUpstreamFiles(upstream: ResolvedUpstream): Promise<UpstreamFiles> {
  const { value: files, faults } = await readFiles(upstream);
  if (files === undefined) throw new StartRefusal(faults.join('; '), 2);
  return files;
}

async function readFiles(upstream: ResolvedUpstream): Promise<SecretFile<UpstreamFiles>> {
  const { secretKey = '', secretKeyFile, caFile } = upstream;
  const secret = secretKeyFile === undefined ? undefined : await readSecret(secretKeyFile);
  const faults = [...(secret?.faults ?? [])];
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8').catch(describeError);
  if (typeof ca === 'object')
    faults.push(`the caFile ${caFile} of SVC_UPSTREAMS cannot be read: ${ca.reason}`);
  const warnings = secret?.warnings ?? [];
  if (faults.length > 0) return { faults, warnings };
  const files = { secretKey: secret?.value ?? secretKey };
  return { value: typeof ca === 'string' ? { ...files, ca } : files, faults, warnings };
}

const describeError = (error: NodeJS.ErrnoException): { readonly reason: string } => ({
  reason: error.code ?? error.message,
});

const readSecret = (path: string): Promise<SecretFile<string>> =>
  readSecretFile(path, {
    setting: 'SVC_UPSTREAM_SECRET_KEY_FILE',
    bytesMax: 4096,
    read: (text) => {
      const key = text.trim();
      return keyPattern.test(key) ? value(key) : fault('does not hold a secret key alone');
    },
  });

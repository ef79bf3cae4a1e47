/** Opens the metadata backend that `SVC_META_BACKEND` names: a function for each row of `config/metadata.ts`. */

import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { MetadataBackendName } from '../../config/metadata.ts';
import type { Config } from '../../config.ts';
import { tables } from '../../metadata/tables.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import { endForReplacement } from '../processes/process-exit.ts';
import { StartRefusal } from '../start-refusal.ts';
import { inDataDir, type Parts } from './compose-bytes.ts';

/** Backends are loaded when the settings name them, so that a runtime without a disk never loads lmdb. */
const openers: Readonly<Record<MetadataBackendName, (parts: Parts) => Promise<MetadataStore>>> = {
  memory: async ({ clock, random }) => {
    const { memoryStore } = await import('../../backends/metadata/memory-store.ts');
    // SVC_INTENT_TTL is not used: only this process has intents, and its death ends the store too.
    return memoryStore({ clock, random });
  },
  embedded: async ({ config, clock, random, disks: spaces, telemetry }) => {
    const { embeddedStore } = await import('../../backends/metadata/embedded/store.ts');
    const directory = inDataDir(config, 'metadata');
    return embeddedStore({
      directory,
      space: spaces?.open('metadata', directory),
      clock,
      random,
      durable: config.SVC_FSYNC === 'always',
      intentTtlMs: config.SVC_INTENT_TTL,
      onBroken: (cause) => endForReplacement(telemetry, cause),
      onRefused: (cause) => telemetry.log('WARN', 'lmdb refused a transaction; it is retried', { cause }),
      onDamage: ({ table, row, message }) =>
        telemetry.log('ERROR', 'metadata is damaged: see docs/recovery.md', { table, row, cause: message }),
    });
  },
  'wide-column': async ({ config, clock, random, telemetry }) => {
    const { wideColumnStore } = await import('../../backends/metadata/wide-column/store.ts');
    return wideColumnStore({
      hosts: config.SVC_WIDECOL_HOSTS ?? [],
      localDc: config.SVC_WIDECOL_LOCAL_DC,
      keyspace: config.SVC_WIDECOL_KEYSPACE,
      replication: config.SVC_WIDECOL_REPLICATION,
      serial: config.SVC_WIDECOL_SERIAL,
      tables: Object.values(tables),
      username: config.SVC_WIDECOL_USERNAME,
      password: config.SVC_WIDECOL_PASSWORD,
      tls: await wideColumnTls(config),
      slowMs: config.SVC_WIDECOL_SLOW_MS,
      onSlow: (query, ms) => telemetry.log('WARN', 'a statement was slow', { query, ms: Math.round(ms) }),
      onFailure: (cause) =>
        telemetry.log('WARN', 'background work on metadata failed in part; it is repeated', { cause }),
      intentTtlMs: config.SVC_INTENT_TTL,
      clock,
      random,
    });
  },
  'ordered-kv': async ({ config, clock, random }) => {
    const { orderedKvStore } = await import('../../backends/metadata/ordered-kv/store.ts');
    return orderedKvStore({
      endpoints: config.SVC_KV_PD_ENDPOINTS ?? [],
      prefix: config.SVC_KV_PREFIX,
      timeoutMs: config.SVC_KV_TIMEOUT,
      gcAgeMs: config.SVC_KV_GC_AGE,
      tls: await kvTls(config),
      intentTtlMs: config.SVC_INTENT_TTL,
      clock,
      random,
    });
  },
};

async function kvTls({ SVC_KV_CA_FILE: ca, SVC_KV_CERT_FILE: cert, SVC_KV_KEY_FILE: key }: Config) {
  if (ca === undefined) return undefined;
  if (cert === undefined || key === undefined) return { ca: await readFile(ca) };
  return { ca: await readFile(ca), cert: await readFile(cert), key: await readFile(key) };
}

export const openMetadata = (parts: Parts): Promise<MetadataStore> =>
  openers[parts.config.SVC_META_BACKEND](parts);

// TLS for connections to a metadata engine: the trusted authorities, and this gateway's certificate.

interface StoreTls {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  /** The name that every server must prove, instead of its address. */
  readonly serverName?: string;
}

type Files = { readonly [Part in 'ca' | 'cert' | 'key']: readonly [name: string, path: string | undefined] };

/** Undefined where the nodes are spoken to without. */
const wideColumnTls = async (config: Config): Promise<StoreTls | undefined> =>
  config.SVC_WIDECOL_TLS || config.SVC_WIDECOL_CA_FILE !== undefined
    ? storeTls(
        {
          ca: ['SVC_WIDECOL_CA_FILE', config.SVC_WIDECOL_CA_FILE],
          cert: ['SVC_WIDECOL_CERT_FILE', config.SVC_WIDECOL_CERT_FILE],
          key: ['SVC_WIDECOL_KEY_FILE', config.SVC_WIDECOL_KEY_FILE],
        },
        config.SVC_WIDECOL_SERVER_NAME,
      )
    : undefined;

/** @throws StartRefusal where a file cannot be read, or holds nothing of use */
async function storeTls(files: Files, serverName: string | undefined): Promise<StoreTls> {
  const parts: Record<string, Buffer> = {};
  for (const [part, [name, path]] of Object.entries(files)) {
    if (path === undefined) continue;
    parts[part] = await readFile(path).catch((cause: Error) => {
      throw new StartRefusal(`${name}=${path} cannot be read: ${cause.message}`, 2, { cause });
    });
  }
  try {
    createSecureContext(parts);
  } catch (cause) {
    const paths = Object.values(files).flatMap(([name, path]) =>
      path === undefined ? [] : [`${name}=${path}`],
    );
    throw new StartRefusal(`${paths.join(', ')}: ${(cause as Error).message}`, 2, { cause });
  }
  return { ...parts, ...(serverName === undefined ? {} : { serverName }) };
}

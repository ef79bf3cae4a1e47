/** TLS for connections to a metadata engine: the trusted authorities, and this gateway's certificate. */
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Config } from '../../config.ts';
import { StartRefusal } from '../start-refusal.ts';

export interface StoreTls {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  /** The name that every server must prove, instead of its address. */
  readonly serverName?: string;
}

type Files = { readonly [Part in 'ca' | 'cert' | 'key']: readonly [name: string, path: string | undefined] };

/** Undefined where the nodes are spoken to without. */
export const wideColumnTls = async (config: Config): Promise<StoreTls | undefined> =>
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

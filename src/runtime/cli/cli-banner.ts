/** The text for the operator once the gateway serves: its address, the key, and a command to paste. */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../config.ts';
import type { Credential } from '../../ports/crypto/credentials.ts';
import { formatEndpoint } from '../compose/endpoint.ts';

export interface Banner {
  readonly version: string;
  readonly url: string;
  readonly config: Pick<
    Config,
    'SVC_DATA_DIR' | 'SVC_META_BACKEND' | 'SVC_DATA_BACKEND' | 'SVC_ADMIN_LISTEN'
  >;
  readonly processes: number;
  /** Set where no credentials are configured. */
  readonly root?: {
    readonly credential: Credential;
    /** Whether the secret is printed: once, by the first start that serves. */
    readonly shows: boolean;
    /** The file of the key; absent when it is in memory only. */
    readonly file?: string;
  };
}

export function banner({ version, url, config, processes, root }: Banner): string {
  const keys = root?.shows === true ? root.credential : undefined;
  const rows: (readonly [string, string])[] = [
    ['endpoint', url],
    [
      'console',
      `${config.SVC_ADMIN_LISTEN === undefined ? url : adminEndpoint(config.SVC_ADMIN_LISTEN, url)}/console/`,
    ],
    ...formatOperatorLines(config, url),
    ['data', describeData(config)],
    ['processes', String(processes)],
  ];
  if (keys !== undefined) {
    rows.push(['access key', keys.accessKey], ['secret key', keys.secretKey]);
    const kept = root?.file === undefined ? 'in memory only, gone at exit' : `kept in ${resolve(root.file)}`;
    rows.push(['', `(created at this start and shown only once; ${kept})`]);
  } else if (root?.file !== undefined) {
    rows.push(['access key', root.credential.accessKey], ['secret key', `in ${resolve(root.file)}`]);
  }
  rows.push(['try', `${formatEnvironment(root)}aws --endpoint-url ${url} s3 ls`]);
  if (keys !== undefined) {
    rows.push(['configure', configureLine(url, keys)], ['then', 'aws --profile sluice s3 mb s3://photos']);
    rows.push(['or', `mc alias set sluice ${url} ${keys.accessKey} ${keys.secretKey}`]);
    rows.push(['docs', docsDirectory]);
  }
  const lines = rows.map(([name, text]) => `  ${name.padEnd(10)}  ${text}`);
  return [`sluice ${version}`, ...lines, ''].join('\n');
}

/** Makes a profile of the AWS CLI, which then needs neither keys nor an address. */
const configureLine = (url: string, { accessKey, secretKey }: Credential): string =>
  [`aws_access_key_id ${accessKey}`, `aws_secret_access_key ${secretKey}`, `endpoint_url ${url}`]
    .map((setting) => `aws configure --profile sluice set ${setting}`)
    .join(' && ');

/** Beside `src` and `dist`, in the repository and in the package. */
const docsDirectory = fileURLToPath(new URL('../../../docs/', import.meta.url));

/** Quoted where it is to be filled in: a shell would take `<` for a redirection. */
function formatEnvironment(root: Banner['root']): string {
  if (root === undefined) return '';
  const secret = root.shows ? root.credential.secretKey : "'<secret key>'";
  return `AWS_ACCESS_KEY_ID=${root.credential.accessKey} AWS_SECRET_ACCESS_KEY=${secret} `;
}

/** The address of `/admin`, `/metrics` and the probes, when they have a listener of their own. */
function formatOperatorLines(
  { SVC_ADMIN_LISTEN }: Banner['config'],
  url: string,
): (readonly [string, string])[] {
  if (SVC_ADMIN_LISTEN === undefined) return [];
  return [['operators', adminEndpoint(SVC_ADMIN_LISTEN, url)]];
}

const adminEndpoint = (address: Parameters<typeof formatEndpoint>[0], url: string): string =>
  formatEndpoint(address, url.startsWith('https:'));

function describeData(config: Banner['config']): string {
  const backends = `metadata ${config.SVC_META_BACKEND}, data ${config.SVC_DATA_BACKEND}`;
  return config.SVC_DATA_DIR === undefined
    ? `not kept (${backends})`
    : `${resolve(config.SVC_DATA_DIR)} (${backends})`;
}

/** Where the credentials for the AWS KMS API come from. All but static ones end, and are fetched again before that. */
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../ports/clock.ts';
import { KeyFailure } from '../../ports/key-provider.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { type KeyRequests, readObject } from './key-requests.ts';

export interface KmsCredentials {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly token?: string | undefined;
  /** When they end, in ms since the epoch; absent for those that do not say. */
  readonly endsAt?: number;
}

export interface CredentialSource {
  /** @throws KeyFailure `unavailable` */
  fetch(): Promise<KmsCredentials>;
}

const printable = /^[\x21-\x7e]{1,16384}$/;

async function readText(path: string, setting: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new KeyFailure('unavailable', `${setting}=${path} cannot be read`, { cause });
  }
}

async function readLine(path: string, setting: string): Promise<string> {
  const text = (await readText(path, setting)).trim();
  if (printable.test(text)) return text;
  throw new KeyFailure('unavailable', `${setting}=${path} does not hold one line of printable ASCII`);
}

/** An access key, and its secret in a file. */
export const staticCredentials = (accessKey: string, secretKeyFile: string): CredentialSource => ({
  fetch: async () => ({ accessKey, secretKey: await readLine(secretKeyFile, 'SVC_KMS_SECRET_KEY_FILE') }),
});

/** How long a profile counts as unchanged: something else may write new keys into the file. */
const profileMs = 5 * 60_000;

/** A profile of a credentials file: `[name]`, then lines of `aws_access_key_id = …`. */
export const profileCredentials = (options: {
  readonly file: string;
  readonly profile: string;
  readonly clock: Pick<Clock, 'now'>;
}): CredentialSource => ({
  async fetch() {
    const { file, profile, clock } = options;
    const values = readProfile(await readText(file, 'SVC_KMS_PROFILE_FILE'), profile);
    const [accessKey, secretKey] = [values.get('aws_access_key_id'), values.get('aws_secret_access_key')];
    if (accessKey === undefined || secretKey === undefined)
      throw new KeyFailure(
        'unavailable',
        `SVC_KMS_PROFILE_FILE=${file} has no aws_access_key_id and aws_secret_access_key in [${profile}]`,
      );
    return { accessKey, secretKey, token: values.get('aws_session_token'), endsAt: clock.now() + profileMs };
  },
});

function readProfile(text: string, profile: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  let section = '';
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (line.startsWith('[') && line.endsWith(']')) section = line.slice(1, -1).trim();
    const at = line.indexOf('=');
    if (section !== profile || at <= 0 || line.startsWith('#')) continue;
    values.set(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  return values;
}

const rolesPath = '/latest/meta-data/iam/security-credentials/';
const imdsTokenSeconds = '300';

/** The role of the machine, by version 2 of the metadata service: each round begins with a session token. */
export const imdsCredentials = (requests: KeyRequests, origin: string): CredentialSource => ({
  async fetch() {
    const ask = async (method: 'GET' | 'PUT', path: string, headers: Record<string, string>) => {
      const { status, text } = await requests.ask({ method, origin, path, headers });
      if (status !== 200)
        throw new KeyFailure('unavailable', `the metadata service answered ${status} for ${path}`);
      return text;
    };
    const token = await ask('PUT', '/latest/api/token', {
      'x-aws-ec2-metadata-token-ttl-seconds': imdsTokenSeconds,
    });
    const headers = { 'x-aws-ec2-metadata-token': token.trim() };
    const role = (await ask('GET', rolesPath, headers)).split('\n')[0]?.trim() ?? '';
    if (!/^[\w+=,.@-]{1,128}$/.test(role))
      throw new KeyFailure('unavailable', 'the metadata service names no role of this machine');
    const input = readObject(await ask('GET', rolesPath + role, headers));
    return toCredentials('the metadata service', [
      input?.['AccessKeyId'],
      input?.['SecretAccessKey'],
      input?.['Token'],
      input?.['Expiration'],
    ]);
  },
});

const stsFields = [
  /<AccessKeyId>([^<]{1,4096})<\/AccessKeyId>/,
  /<SecretAccessKey>([^<]{1,4096})<\/SecretAccessKey>/,
  /<SessionToken>([^<]{1,16384})<\/SessionToken>/,
  /<Expiration>([^<]{1,64})<\/Expiration>/,
] as const;

export interface WebIdentity {
  /** The origin of the STS. */
  readonly origin: string;
  readonly roleArn: string;
  readonly tokenFile: string;
}

/** A role that the token of a workload assumes (AssumeRoleWithWebIdentity). The request is not signed: the token is its proof. */
export const webIdentityCredentials = (
  requests: KeyRequests,
  { origin, roleArn, tokenFile }: WebIdentity,
): CredentialSource => ({
  async fetch() {
    const form = new URLSearchParams({
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: roleArn,
      RoleSessionName: 'sluice',
      WebIdentityToken: await readLine(tokenFile, 'SVC_KMS_WEB_IDENTITY_TOKEN_FILE'),
    });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = form.toString();
    const { status, text } = await requests.ask({ method: 'POST', origin, path: '/', headers, body });
    if (status !== 200) {
      const code = /<Code>(\w{1,64})<\/Code>/.exec(text)?.[1] ?? '';
      throw new KeyFailure('unavailable', `AssumeRoleWithWebIdentity was answered with ${status} ${code}`);
    }
    return toCredentials(
      'AssumeRoleWithWebIdentity',
      stsFields.map((pattern) => pattern.exec(text)?.[1]),
    );
  },
});

/** Values are not repeated in the failure: they are secrets. */
function toCredentials(from: string, [accessKey, secretKey, token, end]: readonly unknown[]): KmsCredentials {
  const endsAt = typeof end === 'string' ? Date.parse(end) : Number.NaN;
  const isText = (input: unknown): input is string => typeof input === 'string' && printable.test(input);
  if (isText(accessKey) && isText(secretKey) && isText(token) && !Number.isNaN(endsAt))
    return { accessKey, secretKey, token, endsAt };
  throw new KeyFailure('unavailable', `${from} answered without credentials`);
}

// Credentials that are fetched when they are first needed, again shortly before they end, and once more when they are refused.

export interface RefreshingOptions {
  readonly source: CredentialSource;
  readonly clock: Pick<Clock, 'now'>;
  readonly telemetry: Pick<Telemetry, 'log'>;
}

/** How long before their end they are fetched again, in the background; requests use the former ones meanwhile. */
const earlyMs = 5 * 60_000;

export class RefreshingCredentials {
  readonly #options: RefreshingOptions;
  #known: KmsCredentials | undefined;
  #fetching: Promise<KmsCredentials> | undefined;

  constructor(options: RefreshingOptions) {
    this.#options = options;
  }

  async current(): Promise<KmsCredentials> {
    const { clock, telemetry } = this.#options;
    const known = this.#known;
    const leftMs = (known?.endsAt ?? Number.POSITIVE_INFINITY) - clock.now();
    if (known === undefined || leftMs <= 0) return this.#fetch();
    if (leftMs < earlyMs)
      this.#fetch().catch((cause: unknown) =>
        telemetry.log('WARN', 'the credentials for the key provider could not be fetched again', { cause }),
      );
    return known;
  }

  /** Other credentials than those that were refused; undefined where the source still has these. */
  async replace(refused: KmsCredentials): Promise<KmsCredentials | undefined> {
    const known = this.#known;
    const next = known === undefined || known.accessKey === refused.accessKey ? await this.#fetch() : known;
    const isSame = next.accessKey === refused.accessKey && next.token === refused.token;
    return isSame && next.secretKey === refused.secretKey ? undefined : next;
  }

  #fetch(): Promise<KmsCredentials> {
    this.#fetching ??= this.#options.source
      .fetch()
      .then((found) => {
        this.#known = found;
        return found;
      })
      .finally(() => {
        this.#fetching = undefined;
      });
    return this.#fetching;
  }
}

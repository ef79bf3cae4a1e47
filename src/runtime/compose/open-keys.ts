/** The key providers as this runtime opens them. Each is loaded only then: other runtimes have neither files nor sockets. */
import type { CredentialSource } from '../../backends/keys/cloud-credentials.ts';
import type { KeyRequests } from '../../backends/keys/key-requests.ts';
import type { TransitAuth } from '../../backends/keys/login.ts';
import type { RemoteProvider } from '../../backends/keys/steady-provider.ts';
import type { KeyProviderName } from '../../config/keys.ts';
import { mayReach } from '../../config/network.ts';
import type { Config } from '../../config.ts';
import type { Credential } from '../../ports/credentials.ts';
import type { Cipher, Hasher } from '../../ports/cryptography.ts';
import type { KeyProvider } from '../../ports/key-provider.ts';
import type { Parts } from './compose-bytes.ts';

interface Around {
  readonly hasher: Hasher;
  readonly cipher: Cipher;
  readonly credentials: readonly Credential[];
}

/** The account that all credentials belong to; undefined where they belong to several. */
function findSoleAccount(credentials: readonly Credential[]): string | undefined {
  const [first, ...others] = new Set(credentials.map(({ owner }) => owner));
  return others.length === 0 ? first : undefined;
}

type Opener<Opened = KeyProvider> = (parts: Parts, around: Around) => Promise<Opened>;

/** The settings' cross checks see to it that each has what it needs. */
const openers: Readonly<Record<KeyProviderName, Opener>> = {
  'local-hsm': openLocalHsm,
  transit: steady(openTransit, { isShared: true }),
  'cloud-kms': steady(openCloudKms, { isShared: true }),
  pkcs11: steady(openPkcs11),
};

export async function openKeys(parts: Parts, around: Around): Promise<KeyProvider | undefined> {
  const { SVC_KEY_PROVIDER: name } = parts.config;
  return name && openers[name](parts, around);
}

/**
 * A provider outside of this process.
 * @param options with `isShared`, accounts take turns of its calls; without it the provider gives turns itself
 */
function steady(open: Opener<RemoteProvider>, { isShared = false } = {}): Opener {
  return async (parts, around) => {
    const { config, clock, telemetry } = parts;
    const { keyTurnsMax, steadyProvider } = await import('../../backends/keys/steady-provider.ts');
    const provider = await open(parts, around);
    const { SVC_KEY_PROVIDER: name = '', SVC_KEY_TIMEOUT: timeoutMs } = config;
    const turns = isShared ? { turnsMax: keyTurnsMax } : {};
    return steadyProvider(provider, { name, clock, telemetry, timeoutMs, ...turns });
  };
}

async function openLocalHsm({ config, random }: Parts, around: Around): Promise<KeyProvider> {
  const { credentials, ...crypto } = around;
  const { localHsm } = await import('../../backends/keys/local-hsm.ts');
  const { readHsmKeys } = await import('../secret-file.ts');
  const keys = await readHsmKeys(config.SVC_HSM_KEYS_FILE ?? '');
  const users = { soleAccount: findSoleAccount(credentials), defaultKey: config.SVC_KMS_DEFAULT_KEY_ID };
  return localHsm({ ...keys, ...users, ...crypto, random });
}

async function openRequests({ config }: Pick<Parts, 'config'>, caFile: string | undefined) {
  const { keyRequests } = await import('../../backends/keys/key-requests.ts');
  return keyRequests({
    mayReach: (address) => mayReach(address, config.SVC_EGRESS_ALLOW),
    timeoutMs: config.SVC_KEY_TIMEOUT,
    ca: caFile === undefined ? undefined : await (await import('node:fs/promises')).readFile(caFile, 'utf8'),
  });
}

const keyUsers = ({ SVC_KEY_ACCOUNTS, SVC_KMS_DEFAULT_KEY_ID }: Config, { credentials }: Around) => ({
  accounts: SVC_KEY_ACCOUNTS,
  soleAccount: findSoleAccount(credentials),
  defaultKeyId: SVC_KMS_DEFAULT_KEY_ID,
});

async function openTransit(parts: Parts, around: Around): Promise<RemoteProvider> {
  const { config, clock, telemetry, random } = parts;
  const [{ transit }, login] = await Promise.all([
    import('../../backends/keys/transit.ts'),
    import('../../backends/keys/login.ts'),
  ]);
  const requests = await openRequests(parts, config.SVC_TRANSIT_CA_FILE);
  return transit({
    calls: login.transitCalls(requests, {
      origin: config.SVC_TRANSIT_ADDR ?? '',
      namespace: config.SVC_TRANSIT_NAMESPACE,
    }),
    auth: chooseLogin(config, login),
    mount: config.SVC_TRANSIT_MOUNT,
    users: keyUsers(config, around),
    hasher: around.hasher,
    random,
    clock,
    telemetry,
    close: () => requests.close(),
  });
}

function chooseLogin(config: Config, login: typeof import('../../backends/keys/login.ts')): TransitAuth {
  const method = config.SVC_TRANSIT_AUTH;
  const mount = config.SVC_TRANSIT_AUTH_MOUNT ?? method;
  const {
    SVC_TRANSIT_ROLE_ID: roleId = '',
    SVC_TRANSIT_SECRET_ID_FILE: secretIdFile = '',
    SVC_TRANSIT_ROLE: role = '',
    SVC_TRANSIT_TOKEN_FILE: tokenFile = '',
  } = config;
  if (method === 'approle') return login.appRoleAuth({ mount, roleId, secretIdFile });
  if (method === 'kubernetes')
    return login.kubernetesAuth({ mount, role, jwtFile: config.SVC_TRANSIT_JWT_FILE });
  return login.tokenAuth(tokenFile);
}

async function openCloudKms(parts: Parts, around: Around): Promise<RemoteProvider> {
  const { config, clock, telemetry } = parts;
  const [{ cloudKms }, { openCall }, { KeyArns }, { RefreshingCredentials }] = await Promise.all([
    import('../../backends/keys/cloud-kms.ts'),
    import('../../backends/keys/call.ts'),
    import('../../backends/keys/call.ts'),
    import('../../backends/keys/cloud-credentials.ts'),
  ]);
  const requests = await openRequests(parts, config.SVC_KMS_CA_FILE);
  const source = await chooseCredentials(parts, requests);
  const call = openCall({
    requests,
    credentials: new RefreshingCredentials({ source, clock, telemetry }),
    origin: config.SVC_KMS_ENDPOINT ?? '',
    region: config.SVC_KMS_REGION,
    hasher: around.hasher,
    clock,
  });
  const { defaultKeyId: defaultKey, ...users } = keyUsers(config, around);
  return cloudKms({
    call,
    arns: new KeyArns(call, { clock, cacheMs: config.SVC_DEK_CACHE_TTL }),
    users,
    defaultKey,
    clock,
    close: () => requests.close(),
  });
}

async function chooseCredentials({ config, clock }: Parts, requests: KeyRequests): Promise<CredentialSource> {
  const sources = await import('../../backends/keys/cloud-credentials.ts');
  switch (config.SVC_KMS_CREDENTIALS) {
    case 'static':
      return sources.staticCredentials(config.SVC_KMS_ACCESS_KEY ?? '', config.SVC_KMS_SECRET_KEY_FILE ?? '');
    case 'profile':
      return sources.profileCredentials({
        file: config.SVC_KMS_PROFILE_FILE ?? '',
        profile: config.SVC_KMS_PROFILE,
        clock,
      });
    case 'imds':
      return sources.imdsCredentials(requests, config.SVC_KMS_IMDS_ENDPOINT);
    case 'web-identity':
      return sources.webIdentityCredentials(requests, {
        origin: config.SVC_KMS_STS_ENDPOINT ?? '',
        roleArn: config.SVC_KMS_ROLE_ARN ?? '',
        tokenFile: config.SVC_KMS_WEB_IDENTITY_TOKEN_FILE ?? '',
      });
  }
}

/** A module that cannot be loaded ends the start; a token that is not present does not. */
async function openPkcs11(parts: Parts, around: Around): Promise<RemoteProvider> {
  const { config, clock, random } = parts;
  const path = config.SVC_PKCS11_MODULE ?? '';
  const [{ pkcs11 }, { openModule }, { readSecretFile }, { StartRefusal }] = await Promise.all([
    import('../../backends/keys/pkcs11.ts'),
    import('../../backends/keys/pkcs11-token.ts'),
    import('../secret-file.ts'),
    import('../start-refusal.ts'),
  ]);
  const module = await openModule(path).catch((cause: Error) => {
    throw new StartRefusal(`SVC_PKCS11_MODULE=${path} cannot be loaded: ${cause.message}`, 2);
  });
  const pinFile = {
    setting: 'SVC_PKCS11_PIN_FILE',
    bytesMax: 1024,
    read: (text: string) => ({ value: text.trim() }),
  };
  return pkcs11({
    module,
    tokens: config.SVC_PKCS11_TOKENS,
    sessions: config.SVC_PKCS11_SESSIONS,
    timeoutMs: config.SVC_KEY_TIMEOUT,
    random,
    clock,
    users: keyUsers(config, around),
    async readPin() {
      const { value, faults } = await readSecretFile(config.SVC_PKCS11_PIN_FILE ?? '', pinFile);
      if (value === undefined) throw new Error(faults.join('; '));
      return value;
    },
  });
}

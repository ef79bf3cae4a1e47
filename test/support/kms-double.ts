/**
 * A key-management service for tests that checks what moto does not: signatures (computed here, apart from src/signing), their time and
 * region, session tokens, key states and encryption contexts. It is a metadata service and an STS too.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  randomUUID,
} from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type KeyProxy, openKeyProxy } from './key-proxy.ts';

/** `StoreAway`: the external store of this one key does not answer. `Failing`: each use of this one key is an internal error. */
type State = 'Enabled' | 'Disabled' | 'PendingDeletion' | 'StoreAway' | 'Failing';
interface Key {
  readonly arn: string;
  readonly versions: Buffer[];
  state: State;
}
interface Pair {
  readonly secret: string;
  readonly token?: string;
  readonly until: number;
}

export interface KmsDouble extends AsyncDisposable {
  readonly proxy: KeyProxy;
  /** @returns the ARN */
  makeKey(alias?: string): string;
  setState(arn: string, state: State): void;
  /** Another key material: what was wrapped before cannot be read. */
  loseMaterial(arn: string): void;
  rotate(arn: string): void;
  /** Makes a pair of keys that end after some time. */
  makePair(lifeMs?: number): {
    readonly accessKey: string;
    readonly secretKey: string;
    readonly token: string;
  };
  /** Ends all pairs but those of `static`. */
  endPairs(): void;
  /** The encryption contexts of all calls that had one. */
  readonly contexts: readonly Readonly<Record<string, unknown>>[];
  /** How far its clock is ahead. */
  aheadMs: number;
}

export const region = 'eu-test-1';
export const staticPair = { accessKey: 'AKSTATIC', secretKey: 'a-static-secret' } as const;

class Refused extends Error {
  readonly code: string;
  readonly status: number;
  constructor(code: string, message = 'refused', status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest();
const sha = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');

export async function openKmsDouble(port = 0): Promise<KmsDouble> {
  const keys = new Map<string, Key>();
  const aliases = new Map<string, string>();
  const pairs = new Map<string, Pair>([
    [staticPair.accessKey, { secret: staticPair.secretKey, until: Number.POSITIVE_INFINITY }],
  ]);
  const state = { aheadMs: 0 };
  const contexts: Record<string, unknown>[] = [];
  const now = (): number => Date.now() + state.aheadMs;

  function verify(headers: IncomingHttpHeaders, body: Buffer): void {
    const match =
      /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/kms\/aws4_request, SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})$/.exec(
        headers.authorization ?? '',
      );
    if (match === null) throw new Refused('MissingAuthenticationToken');
    const [, accessKey = '', day = '', scopeRegion = '', signed = '', signature = ''] = match;
    const pair = pairs.get(accessKey);
    if (pair === undefined) throw new Refused('UnrecognizedClientException');
    if (headers['x-amz-security-token'] !== pair.token)
      throw new Refused('UnrecognizedClientException', 'token');
    if (scopeRegion !== region)
      throw new Refused('InvalidSignatureException', 'Credential should be scoped to a valid region.');
    for (const name of ['host', 'x-amz-date', 'x-amz-target'])
      if (!signed.split(';').includes(name))
        throw new Refused('InvalidSignatureException', `unsigned ${name}`);
    const date = String(headers['x-amz-date']);
    const at = Date.parse(date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'));
    if (Math.abs(at - now()) > 5 * 60_000)
      throw new Refused('InvalidSignatureException', 'Signature expired: the time is off');
    const lines = signed.split(';').map((name) => `${name}:${headers[name]}\n`);
    const canonical = `POST\n/\n\n${lines.join('')}\n${signed}\n${sha(body)}`;
    const toSign = `AWS4-HMAC-SHA256\n${date}\n${day}/${scopeRegion}/kms/aws4_request\n${sha(canonical)}`;
    const key = ['kms', 'aws4_request'].reduce(hmac, hmac(hmac(`AWS4${pair.secret}`, day), scopeRegion));
    if (hmac(key, toSign).toString('hex') !== signature) throw new Refused('InvalidSignatureException');
    if (now() >= pair.until) throw new Refused('ExpiredTokenException', 'The security token is expired');
  }

  function find(name: unknown): Key {
    const arn = aliases.get(String(name)) ?? String(name);
    const key = [...keys.values()].find((each) => each.arn === arn || each.arn.endsWith(`:key/${arn}`));
    if (key === undefined) throw new Refused('NotFoundException', `no ${name}`);
    return key;
  }
  function usable(name: unknown): Key {
    const key = find(name);
    if (key.state === 'Disabled') throw new Refused('DisabledException');
    if (key.state === 'PendingDeletion') throw new Refused('KMSInvalidStateException');
    if (key.state === 'StoreAway') throw new Refused('XksProxyUnreachableException');
    if (key.state === 'Failing') throw new Refused('KMSInternalException', 'internal error', 500);
    return key;
  }
  const contextOf = (given: unknown): Buffer =>
    Buffer.from(JSON.stringify(Object.entries((given ?? {}) as object).sort()));

  function seal({ arn, versions }: Key, plain: Buffer, context: unknown): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', versions.at(-1) as Buffer, nonce).setAAD(contextOf(context));
    const sealed = Buffer.concat([cipher.update(plain), cipher.final()]);
    const name = Buffer.from(`${arn}\n${versions.length - 1}\n`);
    return Buffer.concat([name, nonce, cipher.getAuthTag(), sealed]).toString('base64');
  }
  function unseal(blob: unknown, keyId: unknown, context: unknown): Buffer {
    const bytes = Buffer.from(String(blob), 'base64');
    const [arn = '', version = ''] = bytes.toString('latin1').split('\n');
    if (!keys.has(arn)) throw new Refused('InvalidCiphertextException');
    if (find(keyId).arn !== arn) throw new Refused('IncorrectKeyException');
    const material = usable(arn).versions[Number(version)] as Buffer;
    const rest = bytes.subarray(arn.length + version.length + 2);
    try {
      const cipher = createDecipheriv('aes-256-gcm', material, rest.subarray(0, 12))
        .setAAD(contextOf(context))
        .setAuthTag(rest.subarray(12, 28));
      return Buffer.concat([cipher.update(rest.subarray(28)), cipher.final()]);
    } catch {
      throw new Refused('InvalidCiphertextException');
    }
  }

  const actions: Readonly<Record<string, (asked: Record<string, unknown>) => object>> = {
    DescribeKey: ({ KeyId }) => ({ KeyMetadata: { Arn: find(KeyId).arn, KeyState: find(KeyId).state } }),
    GenerateDataKey({ KeyId, EncryptionContext }) {
      const key = usable(KeyId);
      const plain = randomBytes(32);
      const CiphertextBlob = seal(key, plain, EncryptionContext);
      return { KeyId: key.arn, CiphertextBlob, Plaintext: plain.toString('base64') };
    },
    Encrypt({ KeyId, Plaintext, EncryptionContext }) {
      const key = usable(KeyId);
      const plain = Buffer.from(String(Plaintext), 'base64');
      return { KeyId: key.arn, CiphertextBlob: seal(key, plain, EncryptionContext) };
    },
    Decrypt({ CiphertextBlob, KeyId, EncryptionContext }) {
      const plain = unseal(CiphertextBlob, KeyId, EncryptionContext);
      return { KeyId: find(KeyId).arn, Plaintext: plain.toString('base64') };
    },
    ReEncrypt(asked) {
      const plain = unseal(asked['CiphertextBlob'], asked['SourceKeyId'], asked['SourceEncryptionContext']);
      const key = usable(asked['DestinationKeyId']);
      return {
        KeyId: key.arn,
        CiphertextBlob: seal(key, plain, asked['DestinationEncryptionContext']),
        SourceKeyId: find(asked['SourceKeyId']).arn,
      };
    },
  };

  function makePair(lifeMs = 3_600_000) {
    const made = {
      accessKey: `AK${randomUUID()}`,
      secretKey: randomUUID(),
      token: `token/${randomUUID()}+=`,
    };
    pairs.set(made.accessKey, { secret: made.secretKey, token: made.token, until: now() + lifeMs });
    return made;
  }
  const pairLife = { ms: 3_600_000 };
  const expiration = (): string => new Date(now() + pairLife.ms).toISOString();

  const proxy = await openKeyProxy((asked, answer, body) => {
    const date = new Date(now()).toUTCString();
    const send = (status: number, text: string): void => {
      answer.writeHead(status, { date }).end(text);
    };
    const { url = '', method, headers } = asked;
    if (url === '/latest/api/token' && method === 'PUT') return send(200, 'imds-token');
    if (url.startsWith('/latest/meta-data/')) {
      if (headers['x-aws-ec2-metadata-token'] !== 'imds-token') return send(401, '');
      if (url.endsWith('/security-credentials/')) return send(200, 'the-role');
      const { accessKey, secretKey, token } = makePair();
      const text = {
        AccessKeyId: accessKey,
        SecretAccessKey: secretKey,
        Token: token,
        Expiration: expiration(),
      };
      return send(200, JSON.stringify(text));
    }
    if (headers['content-type'] === 'application/x-www-form-urlencoded') {
      const form = new URLSearchParams(body.toString());
      if (
        form.get('WebIdentityToken') !== 'a.workload.token' ||
        form.get('RoleArn') !== 'arn:aws:iam::1:role/r'
      )
        return send(400, '<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>');
      const { accessKey, secretKey, token } = makePair();
      const fields = { AccessKeyId: accessKey, SecretAccessKey: secretKey, SessionToken: token };
      const lines = Object.entries({ ...fields, Expiration: expiration() }).map(
        ([name, value]) => `<${name}>${value}</${name}>`,
      );
      return send(200, `<R><Credentials>${lines.join('')}</Credentials></R>`);
    }
    try {
      verify(headers, body);
      const action = actions[String(headers['x-amz-target']).replace('TrentService.', '')];
      if (action === undefined) throw new Refused('UnknownOperationException');
      const given = JSON.parse(body.toString()) as Record<string, unknown>;
      if (given['EncryptionContext'] !== undefined)
        contexts.push(given['EncryptionContext'] as Record<string, unknown>);
      send(200, JSON.stringify(action(given)));
    } catch (cause) {
      const { code = 'InternalFailure', status = 500, message } = cause as Partial<Refused>;
      send(status, JSON.stringify({ __type: code, message }));
    }
  }, port);
  return {
    proxy,
    contexts,
    makeKey(alias) {
      const arn = `arn:aws:kms:${region}:111122223333:key/${randomUUID()}`;
      keys.set(arn, { arn, versions: [randomBytes(32)], state: 'Enabled' });
      if (alias !== undefined) aliases.set(alias, arn);
      return arn;
    },
    setState: (arn, next) => {
      find(arn).state = next;
    },
    loseMaterial: (arn) => {
      find(arn).versions.splice(0, 99, randomBytes(32));
    },
    rotate: (arn) => void find(arn).versions.push(randomBytes(32)),
    makePair,
    endPairs() {
      for (const [name, pair] of pairs)
        if (name !== staticPair.accessKey) pairs.set(name, { ...pair, until: 0 });
    },
    get aheadMs() {
      return state.aheadMs;
    },
    set aheadMs(ms) {
      state.aheadMs = ms;
    },
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}

/** Signed calls of the AWS KMS API (JSON 1.1), its errors as failures of the port, and the ARNs of its keys. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import { KeyFailure, type KeyFailureReason } from '../../ports/key-provider.ts';
import type { Cause } from '../../ports/trace.ts';
import { amz } from '../../protocol/dialect.ts';
import { type Signer, signer } from '../../signing/sign-request.ts';
import type { KmsCredentials, RefreshingCredentials } from './cloud-credentials.ts';
import { type KeyReply, type KeyRequests, readObject } from './key-requests.ts';

export type KmsAction = 'DescribeKey' | 'GenerateDataKey' | 'Encrypt' | 'Decrypt' | 'ReEncrypt';
export type KmsAnswer = Readonly<Record<string, unknown>>;
export type KmsCall = (action: KmsAction, body: object, cause?: Cause) => Promise<KmsAnswer>;

export interface CallOptions {
  readonly requests: KeyRequests;
  readonly credentials: RefreshingCredentials;
  readonly origin: string;
  readonly region: string;
  readonly hasher: Hasher;
  readonly clock: Pick<Clock, 'now'>;
}

/** Attempts of one call: the second with fresh credentials or a corrected clock, the third where both were wrong. */
const attemptsMax = 3;
/** A smaller difference of the clocks refuses no signature. */
const skewMinMs = 60_000;

export function openCall(options: CallOptions): KmsCall {
  const { credentials, clock } = options;
  // The clock of the service, by the date of its answer; used once it refused a signature for its time.
  let skewMs = 0;
  const send = openSend(options, { now: () => clock.now() + skewMs });
  return async (action, body, cause) => {
    let current = await credentials.current();
    for (let attempt = 1; ; attempt += 1) {
      const reply = await send(current, { action, asked: body, cause });
      if (reply.status === 200) return readWhole(reply);
      const { code, message } = errorIn(reply);
      if (attempt < attemptsMax && isLate(code, message)) {
        const off = Date.parse(reply.date ?? '') - clock.now();
        if (Math.abs(off - skewMs) > skewMinMs) {
          skewMs = off;
          continue;
        }
      }
      const next = attempt < attemptsMax && isRefused(code) ? await credentials.replace(current) : undefined;
      if (next === undefined) throw failure(reply.status, code, message);
      current = next;
    }
  };
}

interface Question {
  readonly action: KmsAction;
  readonly asked: object;
  readonly cause: Cause | undefined;
}

function openSend({ requests, origin, region, hasher }: CallOptions, clock: Pick<Clock, 'now'>) {
  let last: { readonly of: KmsCredentials; readonly sign: Signer } | undefined;
  const { host } = new URL(origin);
  return (current: KmsCredentials, { action, asked, cause }: Question): Promise<KeyReply> => {
    const { accessKey, secretKey, token } = current;
    if (last?.of !== current)
      last = { of: current, sign: signer({ hasher, clock, accessKey, secretKey, region, service: 'kms' }) };
    const body = JSON.stringify(asked);
    const { headers } = last.sign({
      method: 'POST',
      path: '/',
      query: [],
      headers: {
        host,
        'content-type': 'application/x-amz-json-1.1',
        [`${amz.headerPrefix}target`]: `TrentService.${action}`,
        ...(token === undefined ? {} : { [`${amz.headerPrefix}security-token`]: token }),
      },
      payloadHash: hasher.sha256Hex(body),
    });
    const sent = cause === undefined ? headers : { ...headers, traceparent: cause.traceparent };
    return requests.ask({ method: 'POST', origin, path: '/', headers: sent, body });
  };
}

function readWhole({ text }: KeyReply): KmsAnswer {
  const answer = readObject(text);
  if (answer !== undefined) return answer;
  throw new KeyFailure('unavailable', 'the key-management service answered 200 without a JSON object');
}

const messageMax = 200;
function errorIn({ text }: KeyReply): { readonly code: string; readonly message: string } {
  const answer = readObject(text);
  const type = String(answer?.['__type'] ?? answer?.['code'] ?? '');
  const message = String(answer?.['message'] ?? answer?.['Message'] ?? '').slice(0, messageMax);
  return { code: type.replace(/^.*#/, '').slice(0, 64), message };
}

/** The credentials ended, or are not known. */
const isRefused = (code: string): boolean =>
  /^(ExpiredToken|UnrecognizedClient|InvalidClientTokenId|InvalidSecurity|InvalidSignature|SignatureDoesNotMatch)/.test(
    code,
  );
const isLate = (code: string, message: string): boolean =>
  /^(RequestTimeTooSkewed|RequestExpired)/.test(code) || /signature (expired|not yet current)/i.test(message);

const reasons: Readonly<Record<string, KeyFailureReason>> = {
  NotFoundException: 'unknown-key',
  DisabledException: 'denied',
  KMSInvalidStateException: 'denied',
  InvalidKeyUsageException: 'denied',
  InvalidGrantTokenException: 'denied',
  IncorrectKeyException: 'denied',
  AccessDeniedException: 'denied',
  InvalidCiphertextException: 'tampered',
};

const isThrottling = (code: string): boolean =>
  /^(Throttl|TooManyRequests|RequestThrottled|RequestLimitExceeded|LimitExceeded|SlowDown)/.test(code);
/** What the operator mends: the credentials, the clock, or how the service is set up. */
const isOurs = (code: string): boolean =>
  isRefused(code) ||
  /^(RequestTimeTooSkewed|RequestExpired|IncompleteSignature|MissingAuthentication|NotAuthorized|OptInRequired)/.test(
    code,
  );
/** The store of this one key is away. */
const isOfKey = (code: string): boolean => /^(KeyUnavailable|CloudHsm|CustomKeyStore|Xks)/.test(code);

function failureReason(status: number, code: string): KeyFailureReason {
  const known = reasons[code];
  if (known !== undefined) return known;
  // An id that the service cannot read is the id of no key.
  if (/^(ValidationException|InvalidArnException)$/.test(code)) return 'unknown-key';
  if (status === 429 || isThrottling(code)) return 'throttled';
  if (isOfKey(code)) return 'key-unavailable';
  // A further refusal with a code is about the request; a 400 without one is not the service's.
  return status === 400 && code !== '' && !isOurs(code) ? 'denied' : 'unavailable';
}

function failure(status: number, code: string, message: string): KeyFailure {
  const hint = isOurs(code)
    ? '; check SVC_KMS_CREDENTIALS, SVC_KMS_REGION and the clock of this machine'
    : '';
  return new KeyFailure(
    failureReason(status, code),
    `the key-management service answered ${`${status} ${code}`.trim()}: ${message}${hint}`,
  );
}

// The ARNs of keys that are named by alias or id, cached.

const namesMax = 1_024;

interface Known {
  readonly arn: string;
  readonly until: number;
}

export const isKeyArn = (name: string): boolean => /^arn:[^:]+:kms:[^:]*:[^:]*:key\/.+$/.test(name);

export class KeyArns {
  readonly #call: KmsCall;
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #cacheMs: number;
  readonly #known = new BoundedCache<Known>({ name: 'kms-key-arns', entriesMax: namesMax });

  constructor(
    call: KmsCall,
    { clock, cacheMs }: { readonly clock: Pick<Clock, 'elapsed'>; readonly cacheMs: number },
  ) {
    this.#call = call;
    this.#clock = clock;
    this.#cacheMs = cacheMs;
  }

  /** The ARN where the service need not be asked; `stale`: also one that was found too long ago. */
  known(name: string, age: 'fresh' | 'stale'): string | undefined {
    if (isKeyArn(name)) return name;
    const known = this.#known.get(name);
    return known !== undefined && (age === 'stale' || this.#clock.elapsed() < known.until)
      ? known.arn
      : undefined;
  }

  /** @throws KeyFailure `unknown-key` */
  async find(name: string, cause?: Cause): Promise<string> {
    const known = this.known(name, 'fresh');
    if (known !== undefined) return known;
    const { KeyMetadata } = await this.#call('DescribeKey', { KeyId: name }, cause);
    const arn = (KeyMetadata as { readonly Arn?: unknown } | undefined)?.Arn;
    if (typeof arn !== 'string' || !isKeyArn(arn))
      throw new KeyFailure('unavailable', 'DescribeKey was answered without the ARN of a key');
    this.#known.set(name, { arn, until: this.#clock.elapsed() + this.#cacheMs });
    return arn;
  }
}

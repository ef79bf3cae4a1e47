/**
 * An S3 server for tests, in this process and in memory: `const s3 = await startTestServer()`. It is the storage protocol of the gateway
 * without operator API, console, sinks and engines. Time, faults and delays are the test's.
 */
import '../../base/assert-runtime.ts';
import { type ErrorCode, errorCodes, fail, type Refusal } from '../../base/errors.ts';
import { nearest } from '../../config/nearest.ts';
import { readConfig } from '../../config/read-config.ts';
import type { Config } from '../../config.ts';
import { drawRequestId } from '../../domain/common/ids.ts';
import { askedAt, locate } from '../../gateway/locate.ts';
import { inOptions } from '../../gateway-opener.ts';
import { systemClock } from '../../ports/clock.ts';
import { systemRandom } from '../../ports/random.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { sortDomains } from '../../protocol/address.ts';
import { amz, replyDialect } from '../../protocol/dialect.ts';
import { operationNames } from '../../protocol/operations/operations.ts';
import { renderHeaders, renderRefusal } from '../../protocol/render.ts';
import type { Reply } from '../../protocol/reply.ts';
import { type Incoming, splitTarget } from '../../protocol/wire.ts';
import { receive } from '../../request/request.ts';
import { serve } from '../node/node-server.ts';
import { type MemoryGateway, openMemoryGateway, type Seed } from './memory-gateway.ts';
import type { ObservedEvent } from './observed-events.ts';
import { readDuration } from './test-clock.ts';

export type { Seed, SeedBody, SeedObject } from './memory-gateway.ts';
export type { EventRecord, ObservedEvent } from './observed-events.ts';

export interface TestCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface TestServerOptions {
  /** Default 0: a free port. */
  readonly port?: number;
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** Default `us-east-1`. */
  readonly region?: string;
  /** Default `sluice` and `sluice-secret`. */
  readonly credentials?: TestCredentials;
  /** Buckets and objects to begin with, after `reset()` too. */
  readonly seed?: Seed;
  /** The names of queues, topics and functions that notifications of buckets may point to. Default `queue`, `topic` and `function`. */
  readonly targets?: readonly string[];
  /** Called with each answered request. */
  readonly onRequest?: (request: ObservedRequest) => void;
  /** Gets the log of the service; dropped by default. */
  readonly log?: Telemetry['log'];
}

export interface ObservedRequest {
  readonly method: string;
  /** Path and query as they were sent. */
  readonly target: string;
  /** An operation of the public API, such as `PutObject`; `Unknown` where the request names none. */
  readonly operation: string;
  readonly bucket: string;
  readonly key: string;
  /** By lower-case name, without the signature. */
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number;
  /** The error code of a refusal. */
  readonly code: string | undefined;
  /** Until the reply began. */
  readonly ms: number;
}

/** The options that clients of the AWS SDK for JavaScript v3 take. */
export interface ClientOptions {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { accessKeyId: string; secretAccessKey: string };
  readonly forcePathStyle: true;
}

/** The time of the server, which the system's clients need not know. */
export interface ServerClock {
  now(): Date;
  /**
   * Moves the time on, a day at a time, and runs the background work of each: when the promise resolves, lifecycle rules, ends of restores,
   * access logs, inventories and garbage collection are done. It takes up to a second, because the times of signatures are whole seconds.
   * @param duration ms, or a text such as `30 days`
   */
  advance(duration: number | string): Promise<void>;
}

export interface TestServer extends AsyncDisposable {
  /** Such as `http://127.0.0.1:49152`; `<bucket>.localhost` with its port is a virtual host. */
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: TestCredentials;
  /** `new S3Client(s3.clientOptions)` */
  readonly clientOptions: ClientOptions;
  /** Python that makes a client, after `import boto3, botocore.config`. */
  readonly boto3: string;
  /** What the notifications of buckets would have delivered, had each bucket one for all events; the latest 10,000. */
  readonly events: readonly ObservedEvent[];
  /** The answered requests; the latest 10,000. */
  readonly requests: readonly ObservedRequest[];
  readonly clock: ServerClock;
  /** Makes buckets and objects, with neither requests nor events. */
  seed(seed: Seed): Promise<void>;
  /**
   * The next requests fail as the public service lets them fail: `s3.fail({ next: 'SlowDown', count: 2, operation: 'PutObject' })`
   * @throws RangeError for a code or an operation that is not known, with the nearest one
   */
  fail(fault: FaultOptions): void;
  /** Requests take longer from now on: `s3.latency(50)`, `s3.latency({ operation: 'GetObject', ms: 200 })` */
  latency(latency: number | LatencyOptions): void;
  /** Back to the start: buckets, users, events, requests, faults, delays and time. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

const optionNames = [
  'port',
  'host',
  'region',
  'credentials',
  'seed',
  'targets',
  'onRequest',
  'log',
] as const satisfies readonly (keyof TestServerOptions)[];

/** The latest entries of `events` and `requests`. */
const recordsMax = 10_000;
const defaultCredentials: TestCredentials = { accessKeyId: 'sluice', secretAccessKey: 'sluice-secret' };

const buildConfig = ({
  host = '127.0.0.1',
  port = 0,
  region = 'us-east-1',
  credentials = defaultCredentials,
  targets = ['queue', 'topic', 'function'],
}: TestServerOptions): Config => {
  const { config, faults } = readConfig({
    SVC_META_BACKEND: 'memory',
    SVC_DATA_BACKEND: 'memory',
    SVC_LISTEN: `${host.includes(':') ? `[${host}]` : host}:${port}`,
    SVC_REGION: region,
    SVC_DOMAIN: 'localhost',
    SVC_BUCKET_SHARDS: '1',
    SVC_SHUTDOWN_TIMEOUT: '1s',
    SVC_TRACE_BROWSER: 'off',
    // Background work waits for no rate.
    SVC_LIFECYCLE_RATE: '1000000',
    SVC_LIFECYCLE_BYTES_RATE: '1TiB',
    SVC_CREDENTIALS: JSON.stringify([
      {
        accessKey: credentials.accessKeyId,
        secretKey: credentials.secretAccessKey,
        owner: 'test',
        root: true,
      },
    ]),
    // Their addresses get nothing, because events are observed where they would be queued.
    SVC_NOTIFY_TARGETS: JSON.stringify(
      targets.map((id) => ({ id, type: 'webhook', url: 'http://localhost/', accounts: ['*'] })),
    ),
  });
  if (config === undefined) {
    // The port is right already.
    const wrong = faults
      .join('; ')
      .replaceAll('SVC_LISTEN', 'host')
      .replaceAll('SVC_NOTIFY_TARGETS', 'targets');
    throw new Error(`startTestServer: ${inOptions(wrong)}`);
  }
  return config;
};

function remember<T>(list: T[], entry: T): void {
  list.push(entry);
  if (list.length > recordsMax) list.splice(0, list.length - recordsMax);
}

/** JavaScript passes options of any type; the message shows no secret. @throws RangeError, TypeError */
function assertOptions(options: TestServerOptions): void {
  for (const name of Object.keys(options)) assertKnown('option', name, optionNames);
  const { host = '', port = 0, region = '', credentials = defaultCredentials, targets = [] } = options;
  const texts = { host, region, ...credentials };
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new RangeError(
      `port is ${port}; it must be a whole number from 0 to 65535, and 0 takes a free one`,
    );
  for (const name of ['host', 'region', 'accessKeyId', 'secretAccessKey'] as const)
    if (typeof texts[name] !== 'string')
      throw new TypeError(`${name} is of type ${typeof texts[name]}; it must be a string`);
  if (!Array.isArray(targets) || targets.some((name) => typeof name !== 'string'))
    throw new TypeError(`targets is ${targets}; it must be a list of names`);
}

/** Starts a server on a free port of this machine. @throws Error for options that are wrong, and for a port that is taken */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  assertOptions(options);
  const { credentials = defaultCredentials, log } = options;
  const config = buildConfig(options);
  const events: ObservedEvent[] = [];
  const requests: ObservedRequest[] = [];
  const faults = new Faults();
  const open = async (): Promise<MemoryGateway> => {
    const opened = openMemoryGateway(config, { log, onEvent: (event) => remember(events, event) });
    try {
      await opened.seed(options.seed ?? {});
    } catch (cause) {
      // Its timers would keep the process of the test alive.
      await opened.close();
      throw cause;
    }
    return opened;
  };
  let current = await open();
  const answered = (request: ObservedRequest): void => {
    remember(requests, request);
    options.onRequest?.(request);
  };
  const handle = observed(config, { faults, answered, gateway: () => current });
  const { url: endpoint, close: closeServer } = await serve({ gateway: { handle }, config }).catch(
    async (cause: unknown) => {
      await current.close();
      throw cause;
    },
  );
  const { SVC_REGION: region } = config;
  const { accessKeyId, secretAccessKey } = credentials;
  const close = async (): Promise<void> => {
    await closeServer();
    await current.close();
  };
  return {
    endpoint,
    region,
    credentials,
    clientOptions: { endpoint, region, credentials: { accessKeyId, secretAccessKey }, forcePathStyle: true },
    boto3: `boto3.client("s3", endpoint_url="${endpoint}", region_name="${region}", aws_access_key_id="${accessKeyId}", aws_secret_access_key="${secretAccessKey}", config=botocore.config.Config(signature_version="s3v4"))`,
    events,
    requests,
    clock: {
      now: () => new Date(current.clock.now()),
      advance: async (duration) => current.advance(readDuration(duration)),
    },
    seed: (seed) => current.seed(seed),
    fail: (fault) => faults.fail(fault),
    latency: (latency) => faults.delay(latency),
    async reset() {
      const former = current;
      current = await open();
      faults.clear();
      events.length = 0;
      requests.length = 0;
      await former.close();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Observing {
  readonly faults: Faults;
  readonly answered: (request: ObservedRequest) => void;
  readonly gateway: () => MemoryGateway;
}

/** A gateway that delays and refuses requests as the test asks, and keeps what was answered. */
function observed(config: Config, { faults, answered, gateway }: Observing) {
  const random = systemRandom();
  return async ({ wire, body, signal }: Incoming): Promise<Reply> => {
    const startedAt = systemClock.elapsed();
    // Operators have no area here: `admin` is a name of a bucket as any other.
    const incoming: Incoming = { wire, body, signal, listener: 'storage' };
    const requestId = drawRequestId(random);
    const { asked, format } = describe(config, incoming, requestId);
    await faults.wait(asked, signal);
    const refusal = faults.take(asked);
    const { reply, operation, code } =
      refusal === undefined
        ? await gateway().answer(incoming)
        : {
            reply: refuse(refusal, incoming, { requestId, format }),
            operation: asked.operation,
            code: refusal.code,
          };
    const { method, target } = wire;
    const ms = systemClock.elapsed() - startedAt;
    answered({
      ...asked,
      method,
      target,
      headers: visibleHeaders(incoming),
      operation,
      status: reply.status,
      code,
      ms,
    });
    return reply;
  };
}

type Format = Parameters<typeof renderRefusal>[1]['format'];

/** What a request is about, as far as its address and its query tell. */
function describe(
  config: Config,
  incoming: Incoming,
  requestId: string,
): { readonly asked: AskedRequest; readonly format: Format } {
  const rules = { domains: sortDomains(config.SVC_DOMAIN, config.SVC_WEBSITE_DOMAIN), basePath: '' };
  const { path, query } = splitTarget(incoming.wire.target);
  const unknown = { operation: 'Unknown', bucket: '', key: '' };
  try {
    const located = locate(config, rules, receive(incoming, { requestId, path, query, startedAt: 0 }));
    const found = askedAt(located);
    const asked = found && { operation: found.action, bucket: found.bucketName, key: found.key };
    return { asked: asked ?? unknown, format: located.format };
  } catch {
    // The gateway refuses it, with the reason.
    return { asked: unknown, format: 'xml' };
  }
}

/** The reply to a request that a test lets fail, as the gateway writes it. */
function refuse(
  refusal: Refusal,
  { wire }: Incoming,
  { requestId, format }: { readonly requestId: string; readonly format: Format },
): Reply {
  const { path, query } = splitTarget(wire.target);
  const reply = renderRefusal(refusal, { requestId, resource: path, isHead: wire.method === 'HEAD', format });
  const ids = [
    ['*-request-id', requestId],
    ['*-id-2', requestId],
  ] as const;
  const dialect = replyDialect([...wire.headers.names(), ...query.split('&')]);
  return { ...reply, headers: renderHeaders([...ids, ...reply.headers], dialect) };
}

const secretHeaders: ReadonlySet<string> = new Set(['authorization', `${amz.headerPrefix}security-token`]);

const visibleHeaders = ({ wire: { headers } }: Incoming): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...headers.names()]
      .filter((name) => !secretHeaders.has(name))
      .map((name) => [name, headers.get(name) ?? '']),
  );

// Faults and delays that a test asks for: requests that meet them are refused as the service would refuse them, or wait.

/** Which requests a fault is for; absent fields match every request. */
export interface RequestFilter {
  /** An operation of the public API, such as `PutObject`. */
  readonly operation?: string | undefined;
  readonly bucket?: string | undefined;
  readonly key?: string | undefined;
}

export interface FaultOptions extends RequestFilter {
  /** The error code of the next requests, such as `SlowDown`. */
  readonly next: ErrorCode | (string & {});
  /** How many requests fail. Default 1. */
  readonly count?: number | undefined;
}

export interface LatencyOptions extends RequestFilter {
  /** How much longer a request takes; 0 ends the delay. */
  readonly ms: number;
}

interface AskedRequest {
  readonly operation: string;
  readonly bucket: string;
  readonly key: string;
}

interface Fault extends RequestFilter {
  readonly code: ErrorCode;
  left: number;
}

const isMet = ({ operation, bucket, key }: RequestFilter, asked: AskedRequest): boolean =>
  (operation ?? asked.operation) === asked.operation &&
  (bucket ?? asked.bucket) === asked.bucket &&
  (key ?? asked.key) === asked.key;

/** @throws RangeError that names the nearest known one */
function assertKnown(what: string, name: string, known: readonly string[]): void {
  if (known.includes(name)) return;
  const close = typeof name === 'string' ? nearest(name, known) : undefined;
  throw new RangeError(`${name} is no known ${what}${close === undefined ? '' : `; ${close} is one`}`);
}

/** A misspelt name would let it meet every request. @throws RangeError */
function assertFilter(filter: RequestFilter, ...own: readonly string[]): void {
  if (filter.operation !== undefined) assertKnown('operation', filter.operation, operationNames);
  for (const name of Object.keys(filter)) assertKnown('option', name, ['operation', 'bucket', 'key', ...own]);
}

class Faults {
  #faults: Fault[] = [];
  #delays: LatencyOptions[] = [];

  fail({ next, count = 1, ...filter }: FaultOptions): void {
    assertKnown('error code', next, errorCodes);
    assertFilter(filter);
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`count is ${count}; it must be a whole number from 1`);
    // The cast: it is one of the codes.
    this.#faults.push({ ...filter, code: next as ErrorCode, left: count });
  }

  delay(latency: number | LatencyOptions): void {
    const asked = typeof latency === 'number' ? { ms: latency } : latency;
    assertFilter(asked, 'ms');
    if (!(asked.ms >= 0)) throw new RangeError(`ms is ${asked.ms}; it must be 0 or more`);
    // The latest one that a request meets is the one that it obeys.
    this.#delays.unshift(asked);
  }

  clear(): void {
    this.#faults = [];
    this.#delays = [];
  }

  async wait(asked: AskedRequest, signal: AbortSignal): Promise<void> {
    const ms = this.#delays.find((each) => isMet(each, asked))?.ms ?? 0;
    if (ms > 0) await systemClock.sleep(ms, signal);
  }

  /** The refusal of a request, which uses up one of its count; undefined where the request goes on. */
  take(asked: AskedRequest): Refusal | undefined {
    const fault = this.#faults.find((each) => isMet(each, asked));
    if (fault === undefined) return undefined;
    fault.left -= 1;
    if (fault.left === 0) this.#faults = this.#faults.filter((each) => each !== fault);
    return fail(fault.code, { elements: errorElements(fault.code, asked) });
  }
}

/** The elements by which the public service names what is missing. */
function errorElements(code: ErrorCode, { bucket, key }: AskedRequest): Readonly<Record<string, string>> {
  if (code === 'NoSuchKey' || code === 'NoSuchVersion' || code === 'MethodNotAllowed') return { Key: key };
  if (code === 'NoSuchBucket' || code === 'BucketNotEmpty' || code === 'BucketAlreadyExists')
    return { BucketName: bucket };
  return {};
}

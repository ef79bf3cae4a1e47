/**
 * Opens a gateway for an application: reads its options, opens its storage, adds its hooks and starts the workers. Which kinds of storage,
 * which workers and which areas there are is passed in, so that a small bundle leaves some out (`runtime/cloudflare.ts`).
 */
import { nearest } from './config/nearest.ts';
import { parseConfig, settingByOption, toOption, toSettingText } from './config/read-config.ts';
import type { Setting } from './config/setting.ts';
import { type Config, type SettingName, settingNames, settings } from './config.ts';
import type { Context } from './context.ts';
import { callAfterCommits, withApplicationSink } from './domain/events/events.ts';
import { flushRefusals } from './gateway/recording.ts';
import { type Gateway, type GatewayOptions, InFlight } from './gateway.ts';
import type { Authorize, EventDelivery, OnEvent } from './ports/application.ts';
import type { MetadataStore } from './ports/metadata-store.ts';
import type { ObjectBytes } from './ports/object-bytes.ts';
import { silentTelemetry, type Telemetry } from './ports/telemetry.ts';
import { type FetchFacts, fromRequest, toResponse } from './protocol/fetch.ts';
import type { SettingOptions } from './setting-options.ts';
import { anyName, type Presigned, type PresignedForm, presign, presignForm } from './signing/presign.ts';
import type { startWorkers } from './workers/registry.ts';

/** An access key that the settings have. */
export interface AccessKey {
  readonly accessKey: string;
  readonly secretKey: string;
  /** The account: buckets belong to accounts. */
  readonly owner: string;
  readonly displayName?: string | undefined;
  readonly email?: string | undefined;
  /** The account's root, whom no policy limits. */
  readonly root?: boolean | undefined;
  /** May use the operator API. */
  readonly operator?: boolean | undefined;
}

export interface OpenOptions extends SettingOptions {
  readonly credentials: readonly AccessKey[];
  /** Where metadata and objects are: `memory()`, `directory(path)`, `s3({ … })`, or stores of your own. */
  readonly storage: Storage | CustomStorage;
  /** Background workers in this process: all by default, a list of names, or none. */
  readonly workers?: boolean | readonly string[] | undefined;
  /** The path under which the application serves the gateway, such as `/s3`. Signatures cover it. */
  readonly basePath?: string | undefined;
  /** Logs, metrics and traces; silent by default. */
  readonly telemetry?: Telemetry | undefined;
  /**
   * Decides about requests that no access key has signed, by the application's own session. Absent: they are anonymous.
   * `authorize: async ({ headers }, { key }) => (await sessionOf(headers))?.mayUse(key) ? { owner: 'me', name: 'ann' } : undefined`
   */
  readonly authorize?: Authorize | undefined;
  /** Gets every change of an object in any bucket: created, removed, tagged, expired. */
  readonly onEvent?: OnEvent | undefined;
  /** Default: `at-least-once` where the worker `notify` runs here, else `best-effort`. */
  readonly eventDelivery?: EventDelivery | undefined;
}

/** What a kind of storage sets, and how its stores are opened. */
export interface Storage {
  readonly settings: Partial<Readonly<Record<SettingName, string>>>;
  /** Why it cannot be opened, for callers without types. */
  readonly faults?: readonly string[];
  /** The workers run where the store is, and not in this process. */
  readonly runsWorkers?: true;
  open(config: Config, options: OpeningOptions): Promise<OpenedContext>;
}

export const isStorage = (input: unknown): input is Storage =>
  typeof input === 'object' && input !== null && 'open' in input && 'settings' in input;

/** Stores of the application's own; the comments of the ports state what they must guarantee. */
export interface CustomStorage {
  readonly metadata: MetadataStore;
  readonly bytes: ObjectBytes;
}

export interface OpeningOptions {
  readonly telemetry: Telemetry;
}
export interface OpenedContext {
  readonly context: Context;
  close(): Promise<void>;
}

export interface OpenGateway extends Mounted, AsyncDisposable {
  /** The same gateway under another path, for example `''` on a host of its own. */
  mount(basePath: string): Mounted;
  /** A link that lets its holder do one request until it expires. */
  presign(asked: PresignOptions): string;
  /** A form of a page, by which its holder uploads one file until it expires. */
  presignPost(asked: PresignPostOptions): PresignedPost;
  /**
   * Stops the workers, waits up to ten seconds for requests that have no reply yet, writes what is buffered, and closes the stores. End the
   * application's server first: a request that comes later gets 503, and a download that still runs is cut. Further calls wait for the first.
   */
  close(): Promise<void>;
}

export interface Mounted {
  /**
   * Answers a request. `remote` and `secure` tell what the application knows of the client; an unknown address meets no
   * Allow by address.
   */
  fetch(request: Request, facts?: FetchFacts): Promise<Response>;
  /** For adapters that have no `Request`: see `toNodeHandler` of `sluice/node`. */
  readonly handle: Gateway['handle'];
}

export interface PresignOptions extends Omit<Presigned, 'accessKey' | 'secretKey' | 'path' | 'region'> {
  readonly bucket: string;
  readonly key: string;
  /** The access key whose permissions the link has. Absent: the first of `credentials`. */
  readonly accessKey?: string;
}

export interface PresignPostOptions extends Omit<PresignedForm, 'accessKey' | 'secretKey' | 'region'> {
  /** Where clients reach the gateway, such as `https://files.example.com`; without a path. */
  readonly origin: string;
  /** The access key whose permissions the form has. Absent: the first of `credentials`. */
  readonly accessKey?: string;
}

export interface PresignedPost {
  /** The `action` of the form; its `enctype` is `multipart/form-data`. */
  readonly url: string;
  /** Hidden inputs, before the input `file`. */
  readonly fields: Readonly<Record<string, string>>;
}

/** The options beside the settings. */
const ownOptions = [
  'storage',
  'workers',
  'basePath',
  'telemetry',
  'authorize',
  'onEvent',
  'eventDelivery',
] as const satisfies readonly (keyof OpenOptions)[];
const isOwn = (option: string): boolean => ownOptions.some((own) => own === option);

function unknownOption(option: string): string {
  const close = nearest(option, [...settingByOption.keys(), ...ownOptions]);
  const server = settingNames.find((name) => toOption(name) === option);
  if (server !== undefined)
    return `${option} is a setting of \`sluice serve\` (${server}), not of an embedded gateway`;
  return `${option} is no option${close === undefined ? '; docs/reference/options.md has all of them' : `; ${close} is`}`;
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';

/** An empty text would unset the setting, so that its default applies without a word. */
const isEmpty = (name: SettingName, value: unknown): boolean =>
  typeof value === 'string' && !isText(value) && (settings[name] as Setting<unknown>).emptyIsValue !== true;

/**
 * What a storage lacks, such as where a variable of the environment is not set.
 * @param needed by the name of the option: what it must be
 */
export const missingTexts = (
  storage: string,
  options: object,
  needed: Readonly<Record<string, string>>,
): readonly string[] =>
  Object.entries(needed)
    .filter(([name]) => !isText((options as Readonly<Record<string, unknown>>)[name]))
    .map(([name, what]) => `${name} of ${storage} must be ${what}`);

const missingMethods = (telemetry: Telemetry | null): readonly string[] =>
  Object.keys(silentTelemetry).filter((name) => typeof telemetry?.[name as keyof Telemetry] !== 'function');

/** Requests send other characters percent-encoded, and clients resolve the segments . and .., so no request would have the path. */
const basePathFault = (path: unknown): string | undefined =>
  typeof path === 'string' && /^(?:\/(?!\.\.?(?:\/|$))[\w.~-]+)*$/.test(path)
    ? undefined
    : `${path} must be empty, or begin with a slash, not end with one, and have letters, digits and ._~- in between, such as /s3`;

/** @throws Error that names every wrong option, and what would be right */
function readOptions(
  options: OpenOptions,
  { findStorage, storages }: Pick<OpenerParts, 'findStorage' | 'storages'>,
): { readonly config: Config; readonly storage: Storage } {
  const faults: string[] = [];
  const storage = findStorage(options.storage);
  faults.push(...(storage === undefined ? [`storage must be ${storages}`] : (storage.faults ?? [])));
  const ofStorage = Object.entries(storage?.settings ?? {}).filter(([, text]) => typeof text === 'string');
  const texts: Record<string, string> = Object.fromEntries(ofStorage);
  for (const [option, value] of Object.entries<unknown>({ ...options })) {
    if (isOwn(option) || value === undefined) continue;
    const name = settingByOption.get(option);
    if (name === undefined) faults.push(unknownOption(option));
    else if (name === 'SVC_DATA_DIR' || (storage !== undefined && name in storage.settings))
      faults.push(`${option} follows from storage: leave it out, or choose another storage`);
    else if (value === null || isEmpty(name, value))
      faults.push(`${option} is ${value === null ? 'null' : 'empty'}: leave it out, or give it a value`);
    else texts[name] = toSettingText(value);
  }
  const { credentials, workers, telemetry, authorize, onEvent, eventDelivery } = options;
  if (!Array.isArray(credentials) || credentials.length === 0)
    faults.push('credentials must have an entry such as { accessKey, secretKey, owner: "me", root: true }');
  if (Array.isArray(workers)) texts['SVC_WORKERS'] = workers.join(',');
  else if (workers !== undefined && typeof workers !== 'boolean')
    faults.push('workers must be true, false or a list of names');
  for (const [name, hook] of Object.entries({ authorize, onEvent }))
    if (hook !== undefined && typeof hook !== 'function') faults.push(`${name} must be a function`);
  if (storage?.runsWorkers && workers !== undefined && workers !== false)
    faults.push('workers run beside this storage: leave the option out');
  if (eventDelivery !== undefined && eventDelivery !== 'at-least-once' && eventDelivery !== 'best-effort')
    faults.push('eventDelivery must be at-least-once or best-effort');
  else if (eventDelivery !== undefined && onEvent === undefined)
    faults.push('eventDelivery is without onEvent: leave it out, or name the function that gets the events');
  const lacking = telemetry === undefined ? [] : missingMethods(telemetry);
  if (lacking.length > 0)
    faults.push(
      `telemetry lacks ${lacking.join(', ')}: begin with { ...silentTelemetry, log(level, message, fields) { … } }`,
    );
  const pathFault = options.basePath === undefined ? undefined : basePathFault(options.basePath);
  if (pathFault !== undefined) faults.push(`basePath=${pathFault}`);
  const config = parseConfig(texts);
  if ('faults' in config) faults.push(...config.faults.map(inOptions));
  if (faults.length > 0 || 'faults' in config || storage === undefined)
    throw new Error(`openGateway: ${[...new Set(faults)].join('; ')}`);
  return { config, storage };
}

/** Settings by the names of their options, in a message. */
export const inOptions = (fault: string): string =>
  fault.replaceAll(/\bSVC_[A-Z0-9_]+/g, (name) => toOption(name));

/** The context with the hooks of the application. */
function withHooks(
  { context, close }: OpenedContext,
  options: OpenOptions,
  { runsWorkers = false }: { readonly runsWorkers?: boolean },
): OpenedContext {
  const { authorize, onEvent } = options;
  const workers = options.workers ?? !runsWorkers;
  if (authorize === undefined && onEvent === undefined) return { context, close };
  const notifies = typeof workers === 'boolean' ? workers : workers.includes('notify');
  const { eventDelivery = notifies ? 'at-least-once' : 'best-effort' } = options;
  const hooked: Context = { ...context, application: { authorize, onEvent, eventDelivery } };
  if (onEvent === undefined) return { context: hooked, close };
  const { clock, telemetry, config, metadata: store } = context;
  const calling = { onEvent, clock, timeoutMs: config.SVC_NOTIFY_TIMEOUT };
  if (eventDelivery === 'at-least-once')
    return { context: { ...hooked, sinks: withApplicationSink(context.sinks, calling) }, close };
  const { metadata, settle } = callAfterCommits(store, { ...calling, telemetry });
  const closeAll = async (): Promise<void> => {
    await settle();
    await close();
  };
  return { context: { ...hooked, metadata }, close: closeAll };
}

const linkMethods: readonly unknown[] = ['GET', 'HEAD', 'PUT', 'DELETE'] satisfies Presigned['method'][];

/** What both take; and what only one of them does. */
const bothTake = ['origin', 'bucket', 'key', 'expiresSeconds', 'accessKey'];
const linkOptions = {
  presign: [...bothTake, 'method', 'query'],
  presignPost: [...bothTake, 'bytes', 'contentType', 'fields'],
} as const;

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Whether uploads can have the bounds. The cast: what the fields are is what is asked. */
function isRange(input: unknown): boolean {
  const { min = 0, max } = (input ?? {}) as Readonly<Record<string, unknown>>;
  return isSize(min) && isSize(max) && min <= max;
}

const areTexts = (input: unknown): boolean =>
  typeof input === 'object' &&
  input !== null &&
  Object.values(input).every((each) => typeof each === 'string');

/**
 * For callers without types, and for values that are known at run time: a wrong one would make a link or form whose every use is
 * refused. @throws TypeError that names every wrong option, and what would be right
 */
function assertLinkOptions(call: keyof typeof linkOptions, options: object | undefined = {}): void {
  const { bucket, key, origin, method, ...more } = options as Readonly<Record<string, unknown>>;
  const faults: string[] = [];
  if (call === 'presign' && !linkMethods.includes(method))
    faults.push(`method must be one of ${linkMethods.join(', ')}`);
  if (typeof origin !== 'string' || !/^https?:\/\/[^/?#]+\/?$/.test(origin))
    faults.push(
      'origin must be where clients reach the gateway, without a path, such as https://files.example.com',
    );
  if (typeof bucket !== 'string' || !/^[^/]+$/.test(bucket))
    faults.push('bucket must be the name of a bucket, such as photos');
  // A link with the key '' is one to the bucket itself.
  if (typeof key !== 'string' || (key === '' && call === 'presignPost'))
    faults.push('key must be the key of an object, such as a/b.txt');
  else if (call === 'presignPost' && ![-1, key.length - anyName.length].includes(key.indexOf(anyName)))
    faults.push(`key may have ${anyName} once, at its end`);
  if (more['bytes'] !== undefined && !isRange(more['bytes']))
    faults.push('bytes must be whole numbers, min at most max, such as { min: 1, max: 10_000_000 }');
  if (more['contentType'] !== undefined && typeof more['contentType'] !== 'string')
    faults.push('contentType must be a content type, such as image/png, or the start of one, such as image/');
  for (const name of ['fields', 'query'])
    if (more[name] !== undefined && !areTexts(more[name])) faults.push(`${name} must be texts by name`);
  const known: readonly string[] = linkOptions[call];
  for (const [name, value] of Object.entries(options))
    if (value !== undefined && !known.includes(name))
      faults.push(
        `${name} is no option: ${call === 'presign' ? 'query' : 'fields'} takes what the public API has`,
      );
  if (faults.length > 0) throw new TypeError(`${call}: ${faults.join('; ')}`);
}

export interface OpenerParts {
  createGateway(context: Context, options: GatewayOptions): Gateway;
  /** Absent where the workers run beside the storage. */
  readonly startWorkers?: typeof startWorkers;
  /** Undefined for what is no storage. */
  findStorage(input: unknown): Storage | undefined;
  /** What an application may pass as storage. */
  readonly storages: string;
}

/** For the requests that run when an application closes its gateway. */
const lastRequestsMs = 10_000;

/** @throws Error that names every wrong option, and what would be right */
export async function openWith(parts: OpenerParts, options: OpenOptions): Promise<OpenGateway> {
  const { createGateway, storages } = parts;
  if (typeof options !== 'object' || options === null)
    throw new Error(`openGateway: needs options, such as { credentials: [ … ], storage: ${storages} }`);
  const { config, storage } = readOptions(options, parts);
  const { telemetry = silentTelemetry, basePath = '' } = options;
  const opened = await storage.open(config, { telemetry });
  const { context, close: closeStores } = withHooks(opened, options, storage);
  const mount = (path: string): Mounted => {
    const fault = basePathFault(path);
    if (fault !== undefined) throw new TypeError(`mount: ${fault}`);
    const { handle } = createGateway(context, { basePath: path });
    const fetch: Mounted['fetch'] = async (request, facts) => {
      // The cast: whether it is one is what is asked. Hono's own request and Node's have an URL too.
      if (typeof (request as Partial<Request> | undefined)?.headers?.get !== 'function')
        throw new TypeError('fetch needs a Request: in Hono, c.req.raw');
      return toResponse(await handle(fromRequest(request, facts)), request.method);
    };
    return { handle, fetch };
  };
  const ends = new AbortController();
  const workers =
    options.workers === false || storage.runsWorkers
      ? undefined
      : parts.startWorkers?.(context, config.SVC_WORKERS, ends.signal);
  const closeAll = async (): Promise<void> => {
    await Promise.all([workers?.stop(), context.caches.of(InFlight).end(context, lastRequestsMs)]);
    flushRefusals(context);
    await closeStores();
  };
  let closing: Promise<void> | undefined;
  // Once: `await using` may end a gateway that the application has closed.
  const close = (): Promise<void> => (closing ??= closeAll());
  const region = config.SVC_REGION;
  const findKey = (accessKey = options.credentials[0]?.accessKey): AccessKey => {
    const found = options.credentials.find((each) => each.accessKey === accessKey);
    if (found === undefined) throw new Error(`${accessKey} is none of the credentials`);
    return found;
  };
  return {
    ...mount(basePath),
    mount,
    presign(options) {
      assertLinkOptions('presign', options);
      const { bucket, key, accessKey, ...asked } = options;
      const path = `${basePath}/${bucket}/${key}`;
      return presign(context, { ...asked, ...findKey(accessKey), path, region });
    },
    presignPost(options) {
      assertLinkOptions('presignPost', options);
      const { origin, accessKey, ...asked } = options;
      return {
        url: `${new URL(origin).origin}${basePath}/${asked.bucket}`,
        fields: presignForm(context, { ...asked, ...findKey(accessKey), region }),
      };
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

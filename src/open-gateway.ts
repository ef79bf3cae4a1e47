/**
 * One call that opens a gateway for an application: settings by typed names, a place for the objects, background workers, and `fetch`.
 *
 *     const storage = await openGateway({ credentials, storage: directory('./data') });
 *     app.all('/s3/*', (c) => storage.fetch(c.req.raw));
 */
import { parseConfig } from './config/read/read-config.ts';
import { type Config, type SettingName, settings } from './config.ts';
import type { Context } from './context.ts';
import { callAfterCommits, withApplicationSink } from './domain/events/application-events.ts';
import { createGateway, type Gateway } from './gateway.ts';
import type { Authorize, EventDelivery, OnEvent } from './ports/application.ts';
import type { MetadataStore } from './ports/metadata-store.ts';
import type { ObjectBytes } from './ports/storage/object-bytes.ts';
import { silentTelemetry, type Telemetry } from './ports/telemetry.ts';
import { type FetchFacts, fromRequest, toResponse } from './protocol/request/fetch.ts';
import { type Presigned, type PresignedForm, presign, presignForm } from './signing/presign.ts';
import { startWorkers } from './workers/registry.ts';

type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<Camel<Rest>>}`
  : Lowercase<Name>;
type OptionOf<Name extends string> = Name extends `SVC_${infer Rest}` ? Camel<Rest> : never;

/** Every setting of docs/reference/settings.md by its name in camel case: `SVC_MEMORY_MAX` is `memoryMax`. Values as there, or JSON. */
export type Settings = {
  readonly [Name in SettingName as OptionOf<Name>]?: string | number | boolean | object | undefined;
};

/** An access key that the settings have. */
export interface AccessKey {
  readonly accessKey: string;
  readonly secretKey: string;
  /** The account: buckets belong to accounts. */
  readonly owner: string;
  readonly displayName?: string;
  readonly email?: string;
  /** The account's root, whom no policy limits. */
  readonly root?: boolean;
  /** May use the operator API. */
  readonly operator?: boolean;
}

export interface OpenOptions extends Omit<Settings, 'credentials' | 'workers'> {
  readonly credentials: readonly AccessKey[];
  /** Where metadata and objects are: `memory()`, `directory(path)`, `s3({ … })`, or stores of your own. */
  readonly storage: Storage | CustomStorage;
  /** Background workers in this process: all by default, a list of names, or none. */
  readonly workers?: boolean | readonly string[];
  /** The path under which the application serves the gateway, such as `/s3`. Signatures cover it. */
  readonly basePath?: string;
  /** Logs, metrics and traces; silent by default. */
  readonly telemetry?: Telemetry;
  /**
   * Decides about requests that no access key has signed, by the application's own session. Absent: they are anonymous.
   * `authorize: async ({ headers }, { key }) => (await sessionOf(headers))?.mayUse(key) ? { owner: 'me', name: 'ann' } : undefined`
   */
  readonly authorize?: Authorize;
  /** Gets every change of an object in any bucket: created, removed, tagged, expired. */
  readonly onEvent?: OnEvent;
  /** Default: `at-least-once` where the worker `notify` runs here, else `best-effort`. */
  readonly eventDelivery?: EventDelivery;
}

/** What a kind of storage sets, and how its stores are opened. */
export interface Storage {
  readonly settings: Partial<Readonly<Record<SettingName, string>>>;
  open(config: Config, options: OpeningOptions): Promise<OpenedContext>;
}

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

/** Everything in the memory of this process, on every runtime: for tests and demos. */
export const memory = (): Storage => ({
  settings: { SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'memory' },
  open: async (config, options) => (await import('./portable-context.ts')).openPortable(config, options),
});

/** Durable in a directory of this machine; needs Node, Bun or Deno. */
export const directory = (path: string): Storage => ({
  settings: { SVC_DATA_DIR: path },
  open: composed,
});

export interface S3Storage {
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region?: string;
  /** Keys of this gateway begin with it. */
  readonly prefix?: string;
  /** A directory of this machine for the metadata. */
  readonly metadata: string;
}

/** In front of another S3 service, which holds the bytes; the metadata is in a directory. Needs Node, Bun or Deno. */
export const s3 = ({
  endpoint,
  bucket,
  accessKey,
  secretKey,
  region,
  prefix,
  metadata,
}: S3Storage): Storage => ({
  settings: {
    SVC_DATA_DIR: metadata,
    SVC_META_BACKEND: 'embedded',
    SVC_DATA_BACKEND: 'upstream-store',
    SVC_UPSTREAMS: JSON.stringify([
      { id: 'default', endpoint, bucket, accessKey, secretKey, region, prefix },
    ]),
  },
  open: composed,
});

/** Loaded when it is used, so that a bundle for another runtime has no backend that needs a disk. */
async function composed(config: Config, options: OpeningOptions): Promise<OpenedContext> {
  const { compose } = await import('./runtime/compose/compose.ts');
  return compose(config, { credentials: config.SVC_CREDENTIALS ?? [], ...options });
}

const custom = ({ metadata, bytes }: CustomStorage): Storage => ({
  ...memory(),
  open: async (config, options) =>
    (await import('./portable-context.ts')).openPortable(config, { ...options, metadata, bytes }),
});

export interface OpenGateway extends Mounted, AsyncDisposable {
  /** The same gateway under another path, for example `''` on a host of its own. */
  mount(basePath: string): Mounted;
  /** A link that lets its holder do one request until it expires. */
  presign(asked: PresignOptions): string;
  /** A form of a page, by which its holder uploads one file until it expires. */
  presignPost(asked: PresignPostOptions): PresignedPost;
  /** Stops the workers, writes what is buffered, and closes the stores. */
  close(): Promise<void>;
}

export interface Mounted {
  /** Answers a request. `remote` and `secure` tell what the application knows of the client; an unknown address meets no Allow by address. */
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

const settingNames = Object.keys(settings) as readonly SettingName[];
const camelCase = (name: string): string =>
  name
    .replace(/^SVC_/, '')
    .toLowerCase()
    .replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const byOption: ReadonlyMap<string, SettingName> = new Map(
  settingNames.map((name) => [camelCase(name), name]),
);
const ownOptions = new Set([
  'storage',
  'workers',
  'basePath',
  'telemetry',
  'authorize',
  'onEvent',
  'eventDelivery',
]);

const toText = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value);

/** @throws Error that names every wrong option, and what would be right */
function readOptions(options: OpenOptions, storage: Storage): Config {
  const texts: Record<string, string> = { ...storage.settings };
  const faults: string[] = [];
  for (const [option, value] of Object.entries(options)) {
    if (ownOptions.has(option) || value === undefined) continue;
    const name = byOption.get(option);
    if (name === undefined) faults.push(`${option} is no option; docs/reference/settings.md has all of them`);
    else texts[name] = toText(value);
  }
  if (options.credentials === undefined || options.credentials.length === 0)
    faults.push('credentials must have an entry such as { accessKey, secretKey, owner: "me", root: true }');
  if (Array.isArray(options.workers)) texts['SVC_WORKERS'] = options.workers.join(',');
  const config = parseConfig(texts);
  if ('faults' in config) faults.push(...config.faults.map(inOptions));
  if (faults.length > 0 || 'faults' in config) throw new Error(`openGateway: ${faults.join('; ')}`);
  return config;
}

const inOptions = (fault: string): string => fault.replaceAll(/\bSVC_[A-Z0-9_]+/g, (name) => camelCase(name));

/** The context with the hooks of the application. */
function withHooks({ context, close }: OpenedContext, options: OpenOptions): OpenedContext {
  const { authorize, onEvent, workers = true } = options;
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

/** Opens a gateway for an application. @throws Error that names every wrong option, and what would be right */
export async function openGateway(options: OpenOptions): Promise<OpenGateway> {
  const { telemetry = silentTelemetry, basePath = '' } = options;
  const storage = 'open' in options.storage ? options.storage : custom(options.storage);
  const config = readOptions(options, storage);
  const opened = await storage.open(config, { telemetry });
  const { context, close: closeStores } = withHooks(opened, options);
  const mount = (path: string): Mounted => {
    const { handle } = createGateway(context, { basePath: path });
    const fetch: Mounted['fetch'] = async (request, facts) =>
      toResponse(await handle(fromRequest(request, facts)), request.method);
    return { handle, fetch };
  };
  const ends = new AbortController();
  const workers =
    options.workers === false ? undefined : startWorkers(context, config.SVC_WORKERS, ends.signal);
  const close = async (): Promise<void> => {
    await workers?.stop();
    await closeStores();
  };
  const region = config.SVC_REGION;
  const findKey = (accessKey = options.credentials[0]?.accessKey): AccessKey => {
    const found = options.credentials.find((each) => each.accessKey === accessKey);
    if (found === undefined) throw new Error(`${accessKey} is none of the credentials`);
    return found;
  };
  return {
    ...mount(basePath),
    mount,
    presign({ bucket, key, accessKey, ...asked }) {
      const path = `${basePath}/${bucket}/${key}`;
      return presign(context, { ...asked, ...findKey(accessKey), path, region });
    },
    presignPost: ({ origin, accessKey, ...asked }) => ({
      url: `${new URL(origin).origin}${basePath}/${asked.bucket}`,
      fields: presignForm(context, { ...asked, ...findKey(accessKey), region }),
    }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

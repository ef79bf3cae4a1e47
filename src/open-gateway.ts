/**
 * One call that opens a gateway for an application: settings by typed names, a place for the objects, background workers, and `fetch`.
 *
 *     const storage = await openGateway({ credentials, storage: directory('./data') });
 *     app.all('/s3/*', (c) => storage.fetch(c.req.raw));
 */

import { createGateway } from './admin-gateway.ts';
import {
  type CustomStorage,
  inOptions,
  isStorage,
  missingTexts,
  type OpenGateway,
  type OpenOptions,
  openWith,
  type Storage,
} from './gateway-opener.ts';
import { startWorkers } from './workers/registry.ts';

/** Everything in the memory of this process, on every runtime: for tests and demos. */
export const memory = (): Storage => ({
  settings: { SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'memory' },
  open: async (config, options) => (await import('./portable-context.ts')).openPortable(config, options),
});

// Without a directory the metadata would be in memory, and lost with the process.
const aDirectory = "the path of a directory, such as './data'";

/** Durable in a directory of this machine; needs Node, Bun or Deno. */
export const directory = (path: string): Storage => ({
  settings: { SVC_DATA_DIR: path },
  faults: missingTexts('directory()', { path }, { path: aDirectory }),
  open: composed('path of directory()'),
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
export const s3 = (options: S3Storage): Storage => ({
  faults: missingTexts(
    's3()',
    { ...options },
    {
      endpoint: 'the address of the other service, such as https://s3.example.com',
      bucket: 'the name of a bucket there',
      accessKey: 'an access key of the other service',
      secretKey: 'the secret of accessKey',
      metadata: aDirectory,
    },
  ),
  settings: {
    SVC_DATA_DIR: options?.metadata,
    SVC_DATA_BACKEND: 'upstream-store',
    SVC_UPSTREAMS: upstreamText({ ...options }),
  },
  open: composed('metadata of s3()'),
});

const upstreamText = ({ endpoint, bucket, accessKey, secretKey, region, prefix }: S3Storage): string =>
  JSON.stringify([{ id: 'default', endpoint, bucket, accessKey, secretKey, region, prefix }]);

/**
 * Loaded when it is used, so that a bundle for another runtime has no backend that needs a disk.
 * @param named how an application gave the directory
 */
const composed =
  (named: string): Storage['open'] =>
  async (config, options) => {
    const { lookForPackages } = await import('./runtime/compose/needed-packages.ts');
    const { unwritable } = await import('./runtime/compose/configuration.ts');
    const faults = [
      ...(await lookForPackages(config)).map(inOptions),
      ...(await unwritable(named, config.SVC_DATA_DIR)),
    ];
    if (faults.length > 0) throw new Error(`openGateway: ${faults.join('; ')}`);
    const { compose } = await import('./runtime/compose/compose.ts');
    return compose(config, { credentials: config.SVC_CREDENTIALS ?? [], ...options });
  };

const custom = ({ metadata, bytes }: CustomStorage): Storage => ({
  ...memory(),
  open: async (config, options) =>
    (await import('./portable-context.ts')).openPortable(config, { ...options, metadata, bytes }),
});

function findStorage(input: unknown): Storage | undefined {
  if (isStorage(input)) return input;
  if (typeof input !== 'object' || input === null) return undefined;
  // The cast: whether both are there is what is asked. One that is undefined would be replaced by memory.
  const { metadata, bytes } = input as Partial<CustomStorage>;
  return typeof metadata === 'object' && metadata !== null && typeof bytes === 'object' && bytes !== null
    ? custom({ metadata, bytes })
    : undefined;
}

/** Opens a gateway for an application. @throws Error that names every wrong option, and what would be right */
export const openGateway = (options: OpenOptions): Promise<OpenGateway> =>
  openWith(
    {
      createGateway,
      startWorkers,
      findStorage,
      storages: "memory(), directory('./data'), s3({ … }) or { metadata, bytes }",
    },
    options,
  );

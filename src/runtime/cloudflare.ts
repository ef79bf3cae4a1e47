/**
 * The smallest gateway for a Worker: the storage protocol over `cloudflare()`, or, for trials, `memory()`, without the other storages, the
 * background workers (which run in the object) and, unless it is passed, the operator API. A bundler leaves out what is
 * not imported.
 */

import { createStorageGateway } from '../gateway.ts';
import { isStorage, type OpenGateway, type OpenOptions, openWith, type Storage } from '../gateway-opener.ts';
import type { AdminApi } from '../handlers/handler.ts';
import { openInMemory } from './cloudflare/storage.ts';

export { workerHandler } from '../adapters.ts';
export type { R2Bucket } from '../backends/data/r2.ts';
export type {
  AccessKey,
  Mounted,
  OpenGateway,
  PresignedPost,
  PresignOptions,
  PresignPostOptions,
  Storage,
} from '../gateway-opener.ts';
export type { AdminApi } from '../handlers/handler.ts';
export type { Authorize, AuthorizeAnswer, ObjectEvent, OnEvent } from '../ports/application.ts';
export type { FetchFacts } from '../protocol/fetch.ts';
export type { MetadataNamespace } from './cloudflare/bindings.ts';
export { SluiceMetadata } from './cloudflare/metadata-object.ts';
export { type CloudflareOptions, cloudflare } from './cloudflare/storage.ts';

/** Everything in the memory of this isolate, for trials. That of `sluice` loads its code later, which a bundle for a Worker does not. */
export const memory = (): Storage => ({
  settings: { SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'memory' },
  open: async (config, options) => openInMemory(config, options),
});

export interface WorkerOptions extends Omit<OpenOptions, 'storage' | 'workers'> {
  readonly storage: Storage;
  /** `adminApi` of `sluice/admin-api` serves `/admin/v1`. Absent: there is none, and the bundle is smaller. */
  readonly adminApi?: AdminApi;
}

/** Opens a gateway in a Worker. @throws Error that names every wrong option, and what would be right */
export const openGateway = ({ adminApi, ...options }: WorkerOptions): Promise<OpenGateway> =>
  openWith(
    {
      createGateway: (context, own) => createStorageGateway(context, { ...own, adminApi }),
      findStorage: (input) => (isStorage(input) ? input : undefined),
      storages: 'cloudflare({ objects, metadata, masterKey }) or memory()',
    },
    options,
  );

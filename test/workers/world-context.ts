/** The context of a world over the object and the bucket of miniflare; in workerd for its gateway, and in Node for what a test looks at. */
import type { R2Bucket } from '../../src/backends/data/r2.ts';
import { parseConfig } from '../../src/config/read-config.ts';
import type { Context } from '../../src/context.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { cloudflare, type MetadataNamespace } from '../../src/runtime/cloudflare.ts';
import { namespaceOf } from './named-metadata.ts';

export interface World {
  readonly id: string;
  /** The objects that its metadata are in. */
  readonly shards: number;
  readonly settings: Readonly<Record<string, string>>;
  readonly basePath: string;
}

interface Stores {
  readonly BUCKET: R2Bucket;
  readonly SLUICE: MetadataNamespace;
}

export async function openWorldContext(
  { id, shards, settings }: World,
  { BUCKET, SLUICE }: Stores,
): Promise<Context> {
  const storage = cloudflare({
    objects: under(BUCKET, `${id}/`),
    metadata: namespaceOf(SLUICE, id),
    shards,
    masterKey: btoa('k'.repeat(32)),
  });
  const config = parseConfig({ ...settings, ...storage.settings });
  if ('faults' in config) throw new Error(config.faults.join('; '));
  return (await storage.open(config, { telemetry: silentTelemetry })).context;
}

/** A bucket of its own for each world. */
function under(bucket: R2Bucket, prefix: string): R2Bucket {
  const own = <T extends { readonly key: string }>(object: T) => ({
    ...object,
    key: object.key.slice(prefix.length),
  });
  return {
    put: (key, value, options) => bucket.put(prefix + key, value, options),
    get: (key, options) => bucket.get(prefix + key, options),
    async head(key) {
      const found = await bucket.head(prefix + key);
      if (found === null) return null;
      const { size, customMetadata = {} } = found;
      return { key, size, customMetadata };
    },
    delete: (keys) => bucket.delete(keys.map((key) => prefix + key)),
    async list({ prefix: asked, ...options }) {
      const page = await bucket.list({ ...options, prefix: prefix + asked });
      const { truncated, objects } = page;
      return {
        truncated,
        objects: objects.map(({ key, size, customMetadata = {} }) => own({ key, size, customMetadata })),
        ...(page.cursor === undefined ? {} : { cursor: page.cursor }),
      };
    },
  };
}

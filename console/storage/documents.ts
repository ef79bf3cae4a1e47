/** Reads and writes configurations of a bucket by the storage protocol: loaded with the first one, because operators need none of it. */
import type { ConfigurationFamily } from '../../src/protocol/schemas/families.ts';
import { listInventoryConfigurationsResult } from '../../src/protocol/schemas/inventory.ts';
import { Refused } from '../app/client.ts';
import { storage } from './client.ts';
import {
  decodeConfiguration,
  decodeXml,
  emptyDocuments,
  encodeConfiguration,
  minimumSizeHeader,
} from './codec.ts';
import { storageFamilies } from './families.ts';

export { describeFault } from '../../src/protocol/formats/json-shape.ts';
export { readDocument, schemaOf } from './codec.ts';

/** Names one configuration. */
export interface ConfigurationRef {
  readonly bucket: string;
  readonly family: ConfigurationFamily;
  /** Of an inventory. */
  readonly id?: string | undefined;
}

const queryOf = ({ family, id }: Omit<ConfigurationRef, 'bucket'>) => ({
  [storageFamilies[family].parameter]: '',
  id,
});

const read = (bucket: string, family: ConfigurationFamily, signal: AbortSignal): Promise<unknown> =>
  (family === 'inventory'
    ? readInventories(bucket, signal)
    : storage({ method: 'GET', bucket, query: queryOf({ family }), signal }).then((reply) =>
        decodeConfiguration(family, { text: reply.text, minimumSize: reply.header(minimumSizeHeader) }),
      )
  ).catch((cause: unknown) => {
    if (cause instanceof Refused && cause.status === 404 && cause.code !== 'NoSuchBucket') return undefined;
    throw cause;
  });

async function readInventories(bucket: string, signal: AbortSignal): Promise<unknown> {
  const found: Record<string, unknown> = {};
  const list = { root: 'ListInventoryConfigurationsResult', schema: listInventoryConfigurationsResult };
  let token: string | undefined;
  do {
    const query = { inventory: '', 'continuation-token': token };
    const page = decodeXml(list, (await storage({ method: 'GET', bucket, query, signal })).text);
    for (const each of page.InventoryConfiguration) found[each.Id] = each;
    token = page.NextContinuationToken;
  } while (token !== undefined);
  return Object.keys(found).length === 0 ? undefined : found;
}

/** Requests at the same time: the other requests of the page find room beside them. */
const readsAtOnce = 4;

/** What is set of these families. @throws Refused, Unreachable */
export async function readConfigurations(
  bucket: string,
  families: readonly ConfigurationFamily[],
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  const found: Record<string, unknown> = {};
  const left = [...families];
  const work = async () => {
    for (let family = left.shift(); family !== undefined; family = left.shift()) {
      const value = await read(bucket, family, signal);
      if (value !== undefined) found[family] = value;
    }
  };
  await Promise.all(Array.from({ length: readsAtOnce }, work));
  return found;
}

/** @throws Refused, Unreachable */
export async function writeConfiguration(
  { bucket, ...ref }: ConfigurationRef,
  value: unknown,
): Promise<void> {
  const { text: body, minimumSize } = encodeConfiguration(ref.family, value);
  const type = ref.family === 'policy' ? 'application/json' : 'application/xml';
  const headers = { 'content-type': type, [minimumSizeHeader]: minimumSize };
  await storage({ method: 'PUT', bucket, query: queryOf(ref), headers, body });
}

/** @throws Refused, Unreachable */
export async function removeConfiguration(ref: ConfigurationRef): Promise<void> {
  const empty = emptyDocuments[ref.family];
  if (empty !== undefined) return writeConfiguration(ref, empty);
  await storage({ method: 'DELETE', bucket: ref.bucket, query: queryOf(ref) });
}

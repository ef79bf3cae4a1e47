/** Where the editor checks and stores a document: in the operator API, or in the storage protocol. */
import type { Json } from '../../../src/base/text/strict-json.ts';
import { type Answer, call } from '../../app/client.ts';
import { read } from '../../app/reads.ts';
import type { ConfigurationRef } from '../../storage/documents.ts';
import type { Schema } from './fields.tsx';
import { w } from './words.ts';

type Written = Answer<'PutBucketConfiguration'>;
export type Refusal = Written['refusals'][number];

export interface DocumentStore {
  /** What is said of a document without refusals. */
  readonly sound: string;
  /** @param text valid JSON @returns the parts that would be refused, as far as the store can tell without storing */
  check(text: string): Promise<readonly Refusal[]>;
  /** The fields of the family and their values. */
  readSchema(): Promise<Schema>;
  /** What is set now; undefined: nothing. @throws Refused, Unreachable */
  read(): Promise<unknown>;
  /** @throws Refused, Unreachable */
  save(text: string): Promise<void>;
  /** @throws Refused, Unreachable */
  remove(): Promise<void>;
}

/** The compiler does not get to the end of the type of any JSON in the body of a request. */
const putDocument = call as unknown as (
  name: 'PutBucketConfiguration' | 'PutBucketConfigurationEntry',
  ask: object,
) => Promise<Written>;

interface OpenApi {
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> };
}

type Documents = Readonly<Record<string, unknown>>;

/** The configuration among those of the bucket, which are read by the same operation as for the page. */
function pick(all: unknown, { family, id }: Omit<ConfigurationRef, 'bucket'>): unknown {
  // The casts: the documents of the families have no common type; those of a family with ids are an object.
  const found = (all as Documents)[family];
  return id === undefined ? found : (found as Documents | undefined)?.[id];
}

/** A dry run names all that would be refused. */
export function adminStore({ bucket, family, id }: ConfigurationRef): DocumentStore {
  const path = { name: bucket, family };
  const put = (text: string, query: object) => {
    const body = JSON.parse(text) as Json;
    return id === undefined
      ? putDocument('PutBucketConfiguration', { path, query, body })
      : putDocument('PutBucketConfigurationEntry', { path: { ...path, id }, query, body });
  };
  return {
    sound: w.sound,
    check: async (text) => (await put(text, { 'dry-run': true })).refusals,
    // The cast: the document has no type of its own.
    readSchema: async () => ((await read('GetOpenApi', {})) as OpenApi).components?.schemas?.[family] ?? {},
    read: async () => {
      const all = (await call('ListBucketConfigurations', { path: { name: bucket } })).configurations;
      return pick(all, { family, id });
    },
    save: async (text) => {
      await put(text, {});
    },
    remove: async () => {
      await (id === undefined
        ? call('DeleteBucketConfiguration', { path })
        : call('DeleteBucketConfigurationEntry', { path: { ...path, id } }));
    },
  };
}

const documents = () => import('../../storage/documents.ts');

/** The storage protocol has no dry run: the page checks the form, and the gateway the rest when it is saved. */
export function storageStore(ref: ConfigurationRef): DocumentStore {
  return {
    sound: w.wellFormed,
    check: async (text) => {
      const { describeFault, readDocument } = await documents();
      return readDocument(ref.family, text).faults.map((fault) => ({
        path: fault.path,
        code: 'MalformedXML',
        message: describeFault(fault),
        right: fault.right,
      }));
    },
    readSchema: async () => (await documents()).schemaOf(ref.family),
    read: async () => {
      const { readConfigurations } = await documents();
      const { signal } = new AbortController();
      return pick(await readConfigurations(ref.bucket, [ref.family], signal), ref);
    },
    save: async (text) => {
      const { readDocument, writeConfiguration } = await documents();
      await writeConfiguration(ref, readDocument(ref.family, text).value);
    },
    remove: async () => (await documents()).removeConfiguration(ref),
  };
}
